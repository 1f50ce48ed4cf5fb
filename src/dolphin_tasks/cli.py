"""The command line: `dolphin COMMAND …`. Needs the extra `train`."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

USAGE = """\
usage: dolphin COMMAND [OPTIONS]

Train networks through programs, from labels on the programs' results only.

commands:
  tasks                  list the tasks and the sources of their data
  data TASK              fetch or generate the data of a task
  train TASK [OPTIONS]   train a task; `dolphin train TASK --help` lists options
  eval RUN               evaluate a trained run again
  predict RUN INPUT...   predict for your own sample with a run, and explain
  report RUN...          a table, a figure and a page of several runs
  new-task NAME          write a working template for your own task
  bench [OPTIONS]        time symbolic parts of programs against their networks

`dolphin COMMAND --help` describes a command.
"""

COMMANDS = {
    "tasks": "dolphin_tasks.training.commands:list_tasks",
    "data": "dolphin_tasks.training.commands:get_data",
    "train": "dolphin_tasks.training.commands:train",
    "eval": "dolphin_tasks.training.commands:evaluate_run",
    "predict": "dolphin_tasks.training.commands:predict",
    "report": "dolphin_tasks.training.report:report",
    "new-task": "dolphin_tasks.new_task:new_task",
    "bench": "dolphin_tasks.bench:main",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. User errors are messages, not tracebacks."""
    _refuse_while_importing()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        return 0 if given else 2
    name, *rest = given
    if name == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"dolphin {version('dolphin-nesy')}\n")
        return 0
    if name not in COMMANDS:
        return _fail(f"there is no command {name!r}. Commands: {', '.join(COMMANDS)}.")
    try:
        return _run(COMMANDS[name], rest)
    except KeyboardInterrupt:  # while torch is being imported, too
        sys.stderr.write("\nstopped\n")
        return 130


def _refuse_while_importing() -> None:
    """Refuse a module that starts a command when it is imported for its task."""
    if "dolphin_tasks.catalogue" not in sys.modules:  # no task is being imported
        return
    from dolphin_tasks.catalogue import GUARD, importing
    from dolphin_tasks.training.config import OptionError

    if importing.get():
        raise OptionError(f"{importing.get()} starts a command when it is imported: {GUARD}.")


def _run(place: str, arguments: list[str]) -> int:
    from dolphin import DolphinError

    module, _, function = place.partition(":")
    try:
        command = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if missing.startswith("dolphin"):
            return _fail(f"this installation has no {missing}.")
        return _fail(
            f"this command needs the package {missing!r}. Install what training uses with: "
            "pip install 'dolphin-nesy[train]'"
        )
    try:
        status = int(command(arguments) or 0)
        sys.stdout.flush()
    except DolphinError as error:
        return _fail(str(error))
    except BrokenPipeError:  # `dolphin report … | head`
        _drop_output()
        return 0
    except OSError as error:  # a full disk, a folder that may not be read
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}.")
    return status


def _drop_output() -> None:
    """Discard the remaining output: its reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    lines = f"dolphin: {message}".split("\n")
    if sys.stderr.isatty():  # a terminal would break words
        wrapper = textwrap.TextWrapper(
            shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
        )
        lines = map(wrapper.fill, lines)
    sys.stderr.write("\n".join(lines) + "\n")
    return 2
