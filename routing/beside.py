"""One thing done beside another, by a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

Result = TypeVar("Result")


@contextmanager
def beside(spark: SparkSession, work: Callable[[], Result]) -> Iterator[Callable[[], Result]]:
    """Do the work while the context lasts; it ends when the work has ended. What is given waits for the result.

    Spark's jobs of the work belong to the same query and can be stopped with it.
    """
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(inheritable_thread_target(spark)(work)).result
