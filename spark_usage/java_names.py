"""Names of Java's classes and functions, asked for once.

PySpark asks Java for `functions` and for `col` again at each use. For a class that it imports by a package's name, as
`functions`, Java looks into all of Spark's archives each time. A round does so 3,000 times.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView

_CLASSES = (
    *("PythonSQLUtils", "PythonUtils", "functions"),
    *("org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.expressions.Window"),
    "org.apache.spark.sql.functions",
)
"""As PySpark writes them."""


class _Remembering(JavaClass):  # type: ignore[misc]  # py4j ships no types
    """A class whose static methods are found once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


def remember(java: JVMView) -> None:
    """The classes that rounds use stay known to `java`."""
    for name in _CLASSES:
        found = getattr(java, name)
        java.__dict__[name] = _Remembering(found._fqn, found._gateway_client)
