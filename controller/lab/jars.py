"""Where do the jars of ZooKeeper and Kafka come from?

ZooKeeper's are inside the PySpark package. Kafka's are resolved once by Apache Ivy, the dependency resolution behind
Spark's `spark.jars.packages`, from that same package; called directly, it runs on any Java. The class path is stored
next to the jars, so later calls need neither network nor Java.
"""

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Timer

import msgspec

from controller.lab.errors import JarsUnavailable, LabError
from controller.lab.java import QUICK_START, Java, find_java
from controller.lab.trust import authorities_as_java_trust_store

Progress = Callable[[str], None]

CACHE_FORMAT = 2
IVY_SETTINGS_VARIABLE = "KAFKA_ZK_CONTROLLER_IVY_SETTINGS"
_RESOLUTION_TIMEOUT_S = 900

_ZOOKEEPER_JARS = re.compile(
    r"(zookeeper(-jute)?|netty-(buffer|codec-base|codec|common|handler|resolver|transport|transport-classes-epoll"
    r"|transport-native-unix-common)|slf4j-api|log4j-(api|core|slf4j2-impl)|metrics-core|snappy-java"
    r"|audience-annotations|commons-(cli|io))-\d[\w.]*(-linux-x86_64)?\.jar"
)

_IVY_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="lab" module="kafka" revision="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
    <exclude module="connect-runtime"/>
  </dependencies>
</ivy-module>
"""


class Module(msgspec.Struct, frozen=True):
    """A module of a Maven repository: its jar and, on request, the jar of its tests, with all dependencies."""

    organisation: str
    name: str
    revision: str
    with_tests: bool = False

    def as_dependency(self) -> str:
        """The dependency in an Ivy file."""
        line = (
            f'<dependency org="{self.organisation}" name="{self.name}" rev="{self.revision}" conf="default->default">'
        )
        if self.with_tests:
            line += f'<artifact name="{self.name}" type="jar" ext="jar"/>'
            line += f'<artifact name="{self.name}" type="jar" ext="jar" m:classifier="test"/>'
        return f"    {line}</dependency>"


class _Jar(msgspec.Struct, frozen=True):
    path: str
    size_bytes: int


class _Remembered(msgspec.Struct, frozen=True):
    """A resolved class path, with sizes: a jar of another size was cut short or replaced."""

    cache_format: int
    jars: tuple[_Jar, ...]

    def class_path(self, directory: Path) -> tuple[Path, ...]:
        return tuple(directory / jar.path for jar in self.jars)

    def damaged(self, directory: Path) -> list[Path]:
        return [directory / jar.path for jar in self.jars if _size(directory / jar.path) != jar.size_bytes]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def default_cache_dir() -> Path:
    """Where jars are kept between runs: below `$XDG_CACHE_HOME` or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kafka-zk-controller"


@cache
def spark_jars_dir() -> Path:
    """The jars inside the PySpark package.

    Raises:
        LabError: PySpark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise LabError(
            "PySpark is not installed, and ZooKeeper's jars are in it: "
            "install the extra [lab] of the wheel: pip install 'kafka_zk_controller-….whl[lab]'"
        )
    return Path(spec.submodule_search_locations[0]) / "jars"


@cache
def zookeeper_class_path() -> tuple[Path, ...]:
    """The jars of a ZooKeeper server."""
    jars = tuple(jar for jar in sorted(spark_jars_dir().iterdir()) if _ZOOKEEPER_JARS.fullmatch(jar.name))
    if not any(jar.name.startswith("zookeeper-jute-") for jar in jars):
        raise LabError("this PySpark carries no ZooKeeper jars")
    return jars


def kafka_class_path(
    version: str, *, cache_dir: Path | None = None, progress: Progress = lambda _: None
) -> tuple[Path, ...]:
    """The jars of a Kafka broker and of Kafka's tools; downloaded at the first call.

    Shape:
        Absolute paths in class path order.
    Raises:
        JarsUnavailable: They are not in the cache and could not be downloaded.
    """
    return class_path(f"kafka-{version}", version, partial(_kafka_modules, version), cache_dir, progress)


def class_path(
    name: str,
    version: str,
    modules: Callable[[], Sequence[Module]],
    cache_dir: Path | None = None,
    progress: Progress = lambda _: None,
) -> tuple[Path, ...]:
    """The jars of some modules of a version of Kafka; the class path is stored under `name`.

    Of two processes that call at once, one waits for the other.

    Raises:
        JarsUnavailable: They are not in the cache and could not be downloaded.
    """
    directory = (cache_dir or default_cache_dir()).absolute()
    if (remembered := _recall(directory, name)) and not remembered.damaged(directory):
        return remembered.class_path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _only_one(directory / "lock", progress):
            if remembered := _recall(directory, name):
                damaged = remembered.damaged(directory)
                if not damaged:
                    return remembered.class_path(directory)
                for jar in damaged:
                    jar.unlink(missing_ok=True)
            progress(f"downloading Kafka {version} (once)")
            dependencies = "\n".join(module.as_dependency() for module in modules())
            jars = _resolve(directory, name, dependencies, version, progress)
            _remember(directory, name, jars)
            return jars
    except OSError as error:
        raise JarsUnavailable(version, f"the cache {directory} cannot be used: {error}") from error


def _recall(directory: Path, name: str) -> _Remembered | None:
    try:
        remembered = msgspec.json.decode((directory / f"{name}.json").read_bytes(), type=_Remembered)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    return remembered if remembered.cache_format == CACHE_FORMAT else None


def _remember(directory: Path, name: str, jars: tuple[Path, ...]) -> None:
    remembered = _Remembered(
        cache_format=CACHE_FORMAT,
        jars=tuple(_Jar(path=str(jar.relative_to(directory)), size_bytes=_size(jar)) for jar in jars),
    )
    unfinished = directory / f"{name}.json.part"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(remembered)))
    unfinished.rename(directory / f"{name}.json")


@contextmanager
def _only_one(lock_file: Path, progress: Progress) -> Iterator[None]:
    with lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another process that downloads jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kafka_modules(version: str) -> list[Module]:
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", version)
    if match is None:
        raise JarsUnavailable(version, "a version has three numbers, such as 3.9.1")
    modules = [Module("org.apache.kafka", "kafka_2.13", version)]
    if (int(match[1]), int(match[2])) >= (3, 5):
        modules.append(Module("org.apache.kafka", "kafka-tools", version))
    # Kafka's own distribution adds a logging library; without one a broker logs nothing.
    modules.append(Module("org.slf4j", "slf4j-reload4j", "1.7.36"))
    return modules


def _resolve(directory: Path, name: str, dependencies: str, version: str, progress: Progress) -> tuple[Path, ...]:
    module_file = directory / f"{name}.xml"
    module_file.write_text(_IVY_MODULE.format(name=name, dependencies=dependencies))
    class_path_file = directory / f"{name}.classpath"
    try:
        java = find_java()
        ivy = spark_jars_dir()
    except LabError as error:
        raise JarsUnavailable(version, str(error)) from error
    arguments = [
        "-cache",
        str(directory / "ivy"),
        "-ivy",
        str(module_file),
        "-cachepath",
        str(class_path_file),
    ]
    if settings := os.environ.get(IVY_SETTINGS_VARIABLE):
        arguments += ["-settings", settings]
    output = _run_ivy(java, ivy, [], arguments, progress)
    if not class_path_file.exists() and re.search(r"PKIX|SSLHandshake", output):
        # This Java lacks an authority this machine trusts, for instance that of a company's proxy.
        trust_store = authorities_as_java_trust_store(directory / "authorities.jks")
        output = _run_ivy(java, ivy, [f"-Djavax.net.ssl.trustStore={trust_store}"], arguments, progress)
    if not class_path_file.exists():
        raise JarsUnavailable(version, _first_problem(output))
    jars = class_path_file.read_text().strip().split(os.pathsep)
    class_path_file.unlink()
    module_file.unlink()
    return tuple(Path(jar) for jar in jars)


def _run_ivy(java: Java, ivy: Path, options: list[str], arguments: list[str], progress: Progress) -> str:
    home = arguments[arguments.index("-cache") + 1]
    argv: list[str | Path] = [
        java.executable,
        "-Xmx256m",
        *QUICK_START,
        f"-Divy.default.ivy.user.dir={home}",
        "-Divy.maven.lookup.sources=false",
        "-Divy.maven.lookup.javadoc=false",
        *options,
    ]
    argv += ["-cp", f"{ivy}/*", "org.apache.ivy.Main", *arguments]
    output: list[str] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        timer = Timer(_RESOLUTION_TIMEOUT_S, process.kill)
        timer.start()
        try:
            for line in process.stdout or ():
                output.append(line)
                if jar := re.search(r"downloading \S*/(\S+\.jar) ", line):
                    progress(jar[1])
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
    return "".join(output)


def _first_problem(output: str) -> str:
    patterns = (
        r"Server access error at \S+ \S+ \((.*)\)",
        r":: (\S+: not found)",
        r"UNRESOLVED.*",
        r"(.*[Ee]xception.*)",
    )
    for pattern in patterns:
        if match := re.search(pattern, output):
            return match[match.lastindex or 0].strip()
    return output.strip()[-300:] or "the resolver printed nothing"
