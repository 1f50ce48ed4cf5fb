"""What the commands of the command line do, except for reports."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import itertools
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
import tyro

from dolphin import DolphinError
from dolphin_tasks.catalogue import TASKS, find_task, installed
from dolphin_tasks.training import checkpoint, checks, familiar
from dolphin_tasks.training.config import OptionError, TrainConfig
from dolphin_tasks.training.display import Display
from dolphin_tasks.training.evaluation import evaluate, further_lines
from dolphin_tasks.training.folder import RunError, RunFolder
from dolphin_tasks.training.loop import Trainer
from dolphin_tasks.training.noise import use_row_dropout
from dolphin_tasks.training.processes import Processes
from dolphin_tasks.training.stopping import Interrupted
from dolphin_tasks.training.task import Task

C = TypeVar("C")
COLUMNS = 80
"""Lines fit on a terminal of this width."""


def parse(options: type[C], command: str, arguments: list[str], default: C | None = None) -> C:
    """Options from the command line. Mistakes end the program with a message and status 2."""
    listed = _listed(options)
    defaults: dict[str, Any] = {} if default is None else {"default": listed(**vars(default))}
    parsed = tyro.cli(listed, prog=f"dolphin {command}", args=arguments, **defaults)
    return options(**vars(parsed))


def _listed(options: type[Any]) -> type[Any]:
    """The same options as the help lists them: a task's own before those that all tasks have."""
    fields: dict[str, Any] = options.__dataclass_fields__
    shared = {field.name for field in dataclasses.fields(TrainConfig)}
    ordered = dict(sorted(fields.items(), key=lambda item: item[0] in shared))
    hints, texts = get_type_hints(options, include_extras=True), option_texts(options)
    members = {
        "__doc__": options.__doc__,
        "__module__": options.__module__,
        "__dataclass_fields__": ordered,
        "__annotations__": {
            name: _described(hints[name], texts[name]) for name in ordered if name in texts
        },
    }
    return type(options.__name__, (options,), members)


def _described(hint: Any, text: str) -> Any:
    """The type of an option with its help; None, which the text explains, is not mentioned."""
    given: dict[str, Any] = {"help": text, "help_behavior_hint": _default}
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if get_origin(hint) is UnionType and len(kinds) == 1 and isinstance(kinds[0], type):
        given["metavar"] = kinds[0].__name__.upper()
    return Annotated[hint, tyro.conf.arg(**given)]


def _default(value: str) -> str:
    return "" if value in ("None", "") else f"(default: {value})"


def option_texts(options: type[Any]) -> dict[str, str]:
    """What the strings below the fields of a dataclass and of its bases say, each as one line.

    tyro reads them, too, but breaks lines where the source does.
    """
    texts: dict[str, str] = {}
    for base in reversed(options.__mro__):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError):  # a built-in class, or one without a file
            continue
        lines = body.body if isinstance(body, ast.ClassDef) else []
        for field, below in itertools.pairwise(lines):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
                case _:
                    pass
    return texts


def _task_name(command: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The task that a command starts with; help on tasks where it asks for help."""
    names = ", ".join(TASKS)
    if arguments and arguments[0].startswith("--task="):
        arguments = ["--task", arguments[0].removeprefix("--task="), *arguments[1:]]
    if arguments[:1] == ["--task"]:
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        known = {name: task.summary for name, task in TASKS.items()} | installed()
        width = max(map(len, known)) + 2
        lines = "".join(f"  {name:<{width}}{summary}\n" for name, summary in known.items())
        text = f"usage: dolphin {command} TASK [OPTIONS]\n\ntasks:\n{lines}\n"
        text += f"`dolphin {command} TASK --help` lists the options of a task.\n"
        text += f"Your own: dolphin {command} --task module:Class [OPTIONS]\n"
        if not arguments:
            raise OptionError(f"{command} needs a task: {names}.")
        sys.stdout.write(text)
        raise SystemExit(0)
    if arguments[0].startswith("-"):
        raise OptionError(f"{command} starts with a task ({names}), got {arguments[0]}.")
    return arguments[0], arguments[1:]


# -- tasks and data --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TasksOptions:
    """List the tasks, and where their data would come from now."""


def list_tasks(arguments: list[str]) -> int:
    """`dolphin tasks`."""
    parse(TasksOptions, "tasks", arguments)
    known = {name: (task.summary, task.whereabouts()) for name, task in TASKS.items()}
    known |= {name: (place, "") for name, place in installed().items()}
    width = max(map(len, known)) + 2
    for name, (summary, data) in known.items():
        sys.stdout.write(f"{name:<{width}}{summary}\n")
        if data:  # a line of its own: paths stay whole
            sys.stdout.write(f"{'':<{width}}data: {data}\n")
    return 0


@dataclass(frozen=True)
class DataOptions:
    """Get, check or generate the data of a task, and say where it is."""

    data_dir: Path | None = None
    """Folder to read the data from (default: $DOLPHIN_DATA, the cache, then the network)."""
    download: bool = True
    """Whether data may be fetched from the network."""


def get_data(arguments: list[str]) -> int:
    """`dolphin data TASK`."""
    name, rest = _task_name("data", arguments)
    options = parse(DataOptions, f"data {name}", rest)
    task = find_task(name)
    config = task.config_class(data_dir=options.data_dir, download=options.download)
    made = task(config)
    data = checks.checked_data(made, made.data())
    display = Display()
    display.line(f"{name}: {data.source}")
    display.line(
        f"with default options: {len(data.train):,} training, {len(data.validation):,} validation "
        f"and {len(data.test):,} test samples"
    )
    return 0


# -- training --------------------------------------------------------------------------------------


def train(arguments: list[str]) -> int:
    """`dolphin train TASK`."""
    name, rest = _task_name("train", arguments)
    task_class = find_task(name)
    config = parse(task_class.config_class, f"train {name}", rest)
    if config.resume:
        config = _resumed(task_class, config, rest)
    config.check()
    folder = RunFolder(config.out or Path("runs") / f"{task_class.name}{config.label()}")
    config = dataclasses.replace(config, out=folder.path)
    processes = Processes(config.device)
    try:
        with folder.claimed(processes), Display(quiet=not processes.main) as display:
            try:
                Trainer(task_class(config), folder, display, processes).run()
            except Interrupted:
                display.line(
                    f"stopped; continue with: dolphin train {name} --out {folder.path} --resume"
                )
                return 130
        return 0
    finally:
        processes.stop()


def _resumed(task: type[Task[Any, Any]], config: TrainConfig, arguments: list[str]) -> TrainConfig:
    """The options of a run that is continued, except for those given again."""
    if config.out is None:
        raise OptionError("--resume needs --out, the folder of the run to continue.")
    path = RunFolder(config.out).checkpoint
    stored = checkpoint.part(checkpoint.load(path, task.name), "config", dict, path)
    with _options_of(path):
        default = type(config).from_json(stored)
    return parse(type(config), f"train {task.name}", arguments, default)


@contextlib.contextmanager
def _options_of(path: Path) -> Iterator[None]:
    """Say which file the options come from where something is wrong with them."""
    try:
        yield
    except DolphinError as error:
        raise RunError(f"{path}: {error}") from error


# -- trained runs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvalOptions:
    """Test the best weights of a run again."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    split: Annotated[Literal["test", "validation"], tyro.conf.arg(metavar="SPLIT")] = "test"
    """Which samples to use: test or validation."""
    data_dir: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """Folder to read the data from (default: as in training)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, or auto."""


def evaluate_run(arguments: list[str]) -> int:
    """`dolphin eval RUN`."""
    options = parse(EvalOptions, "eval", arguments)
    processes = Processes(options.device)
    task, network = trained(options.run, processes, options.data_dir)
    if options.data_dir is None:
        data = task.data()
    else:
        data = task.data_elsewhere(_stored(options.run)[1].data_dir)
    samples = data.test if options.split == "test" else data.validation
    if not len(samples):
        raise RunError(f"there are no {options.split} samples in: {data.source}.")
    result = evaluate(task, network, samples, processes, limit=task.config.test_samples)
    display = Display(quiet=not processes.main)
    display.line(f"data: {data.source}")
    display.line(
        f"{options.split}: {result.accuracy:.2%} of {result.total:,} answers right"
        f"{result.perception_note}"
    )
    for line in further_lines(result.groups):
        display.line(f"  {line}")
    if processes.main:
        for line in further_lines(task.more_results(network, samples)):
            display.line(line)
    processes.stop()
    return 0


@dataclass(frozen=True)
class PredictOptions:
    """Read one sample of your own with the best weights of a run, and say why.

    Digits and formulas: pictures of symbols in a row, with gaps between them.

    Other tasks say in their documentation what they read.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of a run."""
    inputs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="INPUT...")]
    """Pictures (dark ink on light paper or the other way round), or other input of the task; the
    symbols of several pictures, in order, make one sample."""
    picture: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """File for the picture of tasks that draw one (default: prediction.png in the run folder)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, or auto."""


def predict(arguments: list[str]) -> int:
    """`dolphin predict RUN INPUT…`."""
    options = parse(PredictOptions, "predict", arguments)
    if not options.inputs:
        raise OptionError("predict needs at least one input: dolphin predict RUN PICTURE...")
    task, network = trained(options.run, Processes(options.device))
    batch = task.given(options.inputs)
    picture = options.picture or options.run / "prediction.png"
    with torch.no_grad():
        outputs = task.read(network.eval(), batch)
        for line in [*task.describe(outputs, batch), *_strange(task, batch, options.run)]:
            sys.stdout.write(textwrap.fill(line, COLUMNS, subsequent_indent="  ") + "\n")
        if task.portray(outputs, batch, picture):
            sys.stdout.write(f"drawn in {picture}\n")
        elif options.picture is not None:
            raise OptionError(f"--picture: the task {task.name} draws nothing.")
    return 0


def _strange(task: Task[Any, Any], batch: Any, run: Path) -> list[str]:
    """A line about inputs that look unlike those of training, if there are any."""
    seen = familiar.load(RunFolder(run).familiar, task.name)
    pictures = task.looks(batch)
    if seen is None or pictures is None:
        return []
    odd = [str(place) for place, strange in enumerate(seen.strange(pictures), 1) if strange]
    if not odd:
        return []
    which = "the picture" if len(pictures) == 1 else f"symbol {odd[0]}"
    says = f"{which} looks unlike anything in training; don't rely on how it was read"
    if len(odd) > 1:
        says = f"symbols {', '.join(odd)} look unlike anything in training; don't rely on them"
    return [f"warning: {says}"]


def trained(
    run: Path, processes: Processes, data_dir: Path | None = None
) -> tuple[Task[Any, Any], torch.nn.Module]:
    """The task of a run, and its network with the best weights."""
    folder = RunFolder(run)
    task_class, config = _stored(run)
    if data_dir is not None:
        config = dataclasses.replace(config, data_dir=data_dir)
    task = task_class(config)
    network = use_row_dropout(checks.checked_network(task))
    content = checkpoint.load(folder.best, task.name)
    weights = checkpoint.part(content, "network", dict, folder.best)
    checkpoint.load_weights(network, weights, folder.best)
    return task, network.to(processes.device)


def _stored(run: Path) -> tuple[type[Task[Any, Any]], TrainConfig]:
    """The task of a run, and the options that it was trained with."""
    folder = RunFolder(run)
    if not run.is_dir():
        raise RunError(f"{run}: there is no such run folder.")
    stored = folder.read_fields("config.json", {"task": str, "config": dict})
    with _options_of(folder.path / "config.json"):
        task_class = find_task(stored["task"])
        config = task_class.config_class.from_json(stored["config"])
        config.check()
    return task_class, config
