# Every Python of a check runs this when it starts. The engine adds a line that calls `_start`.
# It has to work with any Python, even an old one, and must never break a program.


def _start(plugin, reporter):
    """Load a reporter beside pytest or unittest, and then what this file stands in front of."""
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    if sys.version_info >= (3, 6):
        loaded = os.environ.get("PYTEST_PLUGINS", "")
        if plugin not in loaded.split(","):
            os.environ["PYTEST_PLUGINS"] = ",".join(filter(None, [loaded, plugin]))
        if _runs_unittest():
            __import__(reporter)
    _go_on([path for path in sys.path if os.path.abspath(path) != here])


def _runs_unittest():
    """Return whether this Python was started to run unittest. Its arguments are not there yet."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except (IOError, OSError):
        return False
    return any(pair == (b"-m", b"unittest") for pair in zip(words, words[1:]))


def _go_on(places):
    """Load the module of this name that would have been loaded without us."""
    import sys

    try:
        from importlib.machinery import PathFinder
        from importlib.util import module_from_spec
    except ImportError:
        return
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)
