"""The Spark session that Sluice runs in, and what makes Spark's own commands find the same settings.

Law: there is one list of settings, conf/spark-defaults.conf. A session built here has them by argument; spark-submit,
spark-sql and pyspark have them from the file that `install` writes into Spark's configuration directory.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from routing import jars
from routing.config import Config, conf_directory
from routing.errors import SetupError
from routing.java import machine_java, spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARK = "# Written by `sluice setup`."
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"


def session(
    config: Config | None = None, *, existing: SparkSession | None = None, name: str = "sluice", brief: bool = False
) -> SparkSession:
    """A configured session: the one handed in, the one that is running, or a new one; `brief` for a short life.

    Under spark-submit the settings come from `install`'s file or the command line; a session that lacks Delta is
    refused, with what to do.
    """
    from pyspark.sql import SparkSession

    config = config or Config()
    running = existing or SparkSession.getActiveSession()
    if running is None:
        builder = SparkSession.builder.appName(name)
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit: the JVM is still to be started
            os.environ.update(spark_environment())
            settings = {**defaults(), "spark.jars": ",".join(str(jar) for jar in jars.available())}
            for key, value in _with_java_options(settings, brief).items():
                builder = builder.config(key, value)
        for setting, wanted in config.spark.items():
            builder = builder.config(setting, wanted)
        running = builder.getOrCreate()
        _without_checksum_files(running)
    if _DELTA not in (running.conf.get("spark.sql.extensions", "") or ""):
        raise SetupError(
            "this Spark session has no Delta. Run `sluice setup` once, so that spark-submit finds it, or pass "
            f"--jars with the jars in {jars.store()} and --conf spark.sql.extensions={_DELTA}."
        )
    return running


def _without_checksum_files(spark: SparkSession) -> None:
    """Local files get no file of checksums beside each: Hadoop starts a process for every file that it creates.

    Not by a setting: spark-sql fails with any other local file system than the usual one.
    """
    jvm = getattr(spark, "_jvm", None)  # a session of Spark Connect has none
    if jvm is not None:
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), hadoop).setWriteChecksum(False)


def defaults() -> dict[str, str]:
    """The settings of conf/spark-defaults.conf."""
    lines = (conf_directory() / "spark-defaults.conf").read_text().splitlines()
    pairs = (line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def _with_java_options(settings: Mapping[str, str], brief: bool) -> dict[str, str]:
    """Quiet logs; and for a session of seconds no time spent on optimising what will not run again."""
    log4j = shlex.quote(f"-Dlog4j2.configurationFile=file:{conf_directory() / 'log4j2.properties'}")
    return {
        **settings,
        "spark.driver.extraJavaOptions": log4j + (" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if brief else ""),
    }


def spark_conf_directory() -> Path:
    """Where Spark's commands look for their configuration."""
    import pyspark

    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf")


def install() -> Path:
    """Resolve the jars and write Spark's configuration; returns its directory. Somebody else's file is left alone."""
    directory = spark_conf_directory()
    settings = {**defaults(), "spark.jars": ",".join(str(jar) for jar in jars.available())}
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if machine_java() is None:
        environment["JAVA_HOME"] = spark_environment()["JAVA_HOME"]
    files = {
        "spark-defaults.conf": "".join(f"{key} {value}\n" for key, value in settings.items()),
        "spark-env.sh": "".join(
            f"export {key}=${{{key}:-{shlex.quote(value)}}}\n" for key, value in environment.items()
        ),
        "log4j2.properties": (conf_directory() / "log4j2.properties").read_text(),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            target = directory / file
            if target.is_file() and _MARK not in target.read_text():
                raise SetupError(
                    f"{target} is not ours and is left alone. Move it away, or set SPARK_CONF_DIR to another place."
                )
            target.write_text(f"{_MARK}\n{text}")
    except OSError as error:
        raise SetupError(
            f"cannot write to {directory}: {error}. Set SPARK_CONF_DIR to a directory of yours and run this again."
        ) from error
    return directory
