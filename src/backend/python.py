"""Calls main of a module with the input, and leaves what it returns as the result.

    python3 FOLDER/start.py FILE ARG...

The module's source is the file `module` of the same folder. FILE is where it came from, or empty: then it is
taken for a file of the folder that it is started in.
"""

import json
import os
import sys
import traceback
import types

OWN = __file__
NO_FILE = "[module]"


class Loader:
    """Gives tracebacks and inspect the source, which is not where its name says."""

    def __init__(self, source):
        self.source = source

    def get_source(self, _name):
        from importlib.util import decode_source

        return decode_source(self.source)


def show_exception(kind, error, trace):
    """Shows an exception without the frames of this file, and of asyncio, before those of the module."""
    outside = [OWN]
    if "asyncio" in sys.modules:
        outside.append(os.path.dirname(sys.modules["asyncio"].__file__))
    while trace and trace.tb_frame.f_code.co_filename.startswith(tuple(outside)):
        trace = trace.tb_next
    if issubclass(kind, KeyboardInterrupt):
        # Python then ends by the signal, unless anything was evaluated in between, as traceback may.
        sys.__excepthook__(kind, error.with_traceback(trace), trace)
    else:
        traceback.print_exception(kind, error, trace)


def every_digit(convert, *arguments, **options):
    """Converts without the limit that Python has for the digits of a whole number."""
    if not hasattr(sys, "set_int_max_str_digits"):
        return convert(*arguments, **options)
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return convert(*arguments, **options)
    finally:
        sys.set_int_max_str_digits(limit)


def name_of(file):
    """The name that an import of the file would give it, where nothing else has that name."""
    stem = os.path.splitext(os.path.basename(file))[0]
    taken = stem in sys.modules or stem in getattr(sys, "stdlib_module_names", ())
    return stem if stem.isidentifier() and not taken else "runcast_module"


def load(source, file):
    """Runs the module, in the place of an imported one: as __main__ it would not be called but run."""
    module = types.ModuleType(name_of(file))
    module.__loader__ = Loader(source)
    if file:
        module.__file__ = file
    sys.modules[module.__name__] = module
    code = compile(source, file or NO_FILE, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def takes_nothing(function):
    """Whether a function may be called without arguments."""
    import inspect

    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:
        # One in C that does not tell.
        return False
    return True


def call(module, inputs):
    """The value of main, awaited; None where there is no main, and the module's own affair."""
    main = getattr(module, "main", None)
    if not callable(main):
        if inputs:
            raise TypeError("the module has no function main to call with the input")
        return ()
    if not inputs and not takes_nothing(main):
        inputs = (None,)
    value = main(*inputs)
    if hasattr(value, "__await__"):
        import asyncio

        async def wait():
            return await value

        value = asyncio.run(value if asyncio.iscoroutine(value) else wait())
    return (value,)


def as_json(value):
    """The value as bytes of JSON. Half a surrogate pair is no UTF-8, and is escaped."""
    try:
        text = every_digit(json.dumps, value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise type(error)(f"the module's value is not JSON: {error}") from None
    return text.encode("utf-8", "backslashreplace")


def run():
    """Does it all."""
    sys.excepthook = show_exception
    # A line is to be seen when it is printed, though nobody looks at a terminal.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    folder = os.path.dirname(OWN)
    result_file = os.environ["RUNCAST_RESULT"]
    input_file = os.environ.get("RUNCAST_INPUT")
    inputs = ()
    if input_file is not None:
        with open(input_file, encoding="utf-8") as file:
            inputs = (every_digit(json.loads, file.read()),)
    with open(os.path.join(folder, "module"), "rb") as file:
        source = file.read()
    file = sys.argv[1]
    sys.argv[:2] = [file or NO_FILE]
    if not getattr(sys.flags, "safe_path", False):
        # The first place to import from is the module's folder, not that of this file.
        sys.path[0] = os.path.dirname(os.path.realpath(file)) if file else ""
    for value in call(load(source, file), inputs):
        content = as_json(value)
        with open(result_file, "wb") as file:
            file.write(content)


# What multiprocessing starts anew is not to run this again.
del __file__
run()
