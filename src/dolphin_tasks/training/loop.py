"""The training loop: steps, epochs, checkpoints, and the results at the end."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

import dolphin as dl
from dolphin_tasks.catalogue import reference
from dolphin_tasks.training import checkpoint, checks, familiar, plots
from dolphin_tasks.training.config import TrainConfig
from dolphin_tasks.training.display import Display
from dolphin_tasks.training.evaluation import evaluate, further_lines, near_tie
from dolphin_tasks.training.folder import RunError, RunFolder, portable, versions
from dolphin_tasks.training.noise import Noise, seed_of, set_noise, use_row_dropout
from dolphin_tasks.training.processes import Processes
from dolphin_tasks.training.progress import Progress, schedule
from dolphin_tasks.training.stopping import Interrupted, Stop
from dolphin_tasks.training.table import State
from dolphin_tasks.training.task import Outputs, Samples, Task

_WARM_UP = 5  # steps of a process before the program's share of a step is taken


class TrainingError(dl.DolphinError, ArithmeticError):
    """Training can't continue."""


class Trainer:
    """Trains a task in a run folder."""

    def __init__(
        self, task: Task[Any, Any], folder: RunFolder, display: Display, processes: Processes
    ) -> None:
        self.task, self.folder, self.display, self.processes = task, folder, display, processes
        self.config: TrainConfig = task.config
        self.progress = Progress()
        self._steps_done = 0  # by this process
        self._row_cost = 0.5 / self.config.batch  # steps it takes to evaluate a row: a first guess
        self._stop = Stop()

    # -- the whole run -----------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Train to the last epoch, then test the best one. Returns the results."""
        config = self.config
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)
        self.display.doing("loading data")
        self.data = checks.checked_data(self.task, self.task.data())
        network = checks.checked_network(self.task)
        self.network = use_row_dropout(network).to(self.processes.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=config.lr)
        self.count = min(len(self.data.train), config.train_samples or len(self.data.train))
        if self.count == 0:
            raise RunError(
                "there are no training samples: use fewer images per sample, or more data."
            )
        if not len(self.data.test):  # found now, not after hours of training
            raise RunError(f"there are no test samples in: {self.data.source}.")
        self.steps = math.ceil(self.count / config.batch)
        self._prepare_folder()
        self.display.line(f"data: {self.data.source}")
        validation, test = (self._used(part) for part in (self.data.validation, self.data.test))
        self.display.line(
            f"{self.count:,} training, {validation:,} validation and {test:,} test samples; "
            f"results go to {self.folder.path}"
        )
        self.display.table(self._earlier(), perception=bool(self.task.classes))
        self.display.doing("first step")
        with self._stop.listening():
            while self.progress.epoch < config.epochs:
                try:
                    self._epoch()
                except Interrupted:
                    self._save()
                    raise
            return self._finish()

    def _used(self, samples: Samples[Any]) -> int:
        """How many samples of a split are used."""
        return min(len(samples), self.config.test_samples or len(samples))

    def _prepare_folder(self) -> None:
        path = self.folder.checkpoint
        if self.config.resume:
            self._restore()
        elif path.exists():
            raise RunError(
                f"{self.folder.path} already holds a run. Add --resume to continue it, or choose "
                "another --out."
            )
        self.processes.wait()
        if self.processes.main:
            content = {"task": reference(type(self.task)), "config": self.config.as_json()}
            self.folder.write_json("config.json", content)
            self.folder.write_metrics(self.progress.history)

    # -- epochs and steps --------------------------------------------------------------------------

    def _epoch(self) -> None:
        progress, config = self.progress, self.config
        generator = torch.Generator().manual_seed(seed_of(config.seed, 1, progress.epoch))
        order = torch.randperm(self.count, generator=generator)
        lesson = self.task.lesson(self.data.train, progress.epoch)
        if lesson is not None:
            lesson = lesson[lesson < self.count]
            order = lesson[torch.randint(len(lesson), (self.count,), generator=generator)]
        self.network.train()
        start, before = time.perf_counter(), progress.seconds
        for index in order.split(config.batch)[progress.step :]:
            stopped = self._step(index)  # all processes agree on it
            progress.step += 1
            progress.seconds = before + time.perf_counter() - start
            self.display.show(self._state())
            if stopped:
                raise Interrupted
        self.processes.average_buffers(self.network)
        self._validate()

    def _validate(self) -> None:
        """Measure the epoch that has just ended, and keep it unless an earlier one was better."""
        progress, began = self.progress, time.perf_counter()
        self.display.doing("validating")
        result = evaluate(
            self.task,
            self.network,
            self.data.validation,
            self.processes,
            limit=self.config.test_samples,
            between=self._stop.raise_if_asked,
        )
        state = self._state()
        if result.total:
            a_step = max(1e-9, progress.seconds) / max(1, progress.step)
            self._row_cost = (time.perf_counter() - began) / a_step / result.total
        progress.epoch += 1
        progress.total_seconds += progress.seconds
        progress.history.append(
            {
                "epoch": progress.epoch,
                "loss": state.loss,
                "train_accuracy": state.accuracy,
                "validation_accuracy": result.accuracy if result.total else None,
                "perception_accuracy": result.perception_accuracy,
                "samples_seen": progress.epoch * self.count,
                "seconds": round(progress.seconds, 3),
                "symbolic_share": round(progress.symbolic_share, 5),
            }
        )
        # without validation: the last epoch
        chosen = near_tie(result.accuracy, progress.best_accuracy, result.total)
        if chosen:
            progress.best_epoch = progress.epoch
        progress.best_accuracy = max(progress.best_accuracy, result.accuracy)
        progress.step, progress.loss_sum, progress.right, progress.seen = 0, 0.0, 0, 0
        progress.seconds = 0.0
        if self.processes.main:
            if chosen:
                checkpoint.save(self.folder.best, self._weights())
            self.folder.write_metrics(progress.history)
        self._save()
        validation = result.accuracy if result.total else None
        self.display.epoch(
            replace(
                state, validation=validation, perception=result.perception_accuracy, chosen=chosen
            )
        )

    def _step(self, index: Tensor) -> bool:
        """One step on a global batch, each process its share of it. Returns whether to stop."""
        config, progress = self.config, self.progress
        samples, share = self.data.train, self.processes.share(len(index))
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        self.optimizer.zero_grad()
        totals = torch.zeros(2, dtype=torch.float64)
        symbolic = neural = 0.0
        mine = index[share]
        if len(mine):
            before = samples.reads(index[: share.start])
            noise = Noise(
                seed_of(config.seed, 2, progress.epoch, progress.step),
                before,
                samples.reads(mine),
                samples.reads(index),
            )
            set_noise(self.network, noise)
            batch = samples.batch(mine, noise)
            losses, right, symbolic, neural = self._learn(batch, len(mine), len(index))
            totals = torch.tensor([losses, right], dtype=torch.float64)
        began = time.perf_counter()
        stopped = self.processes.sum_gradients(self.network.parameters(), self._stop.asked)
        self.optimizer.step()
        neural += time.perf_counter() - began
        progress.timed(symbolic, neural, warm=self._steps_done >= _WARM_UP)
        self._steps_done += 1
        totals = self.processes.sum(totals)
        progress.loss_sum += float(totals[0])
        progress.right += int(totals[1])
        progress.seen += len(index)
        if not math.isfinite(progress.loss_sum):
            remedy = "Lower --lr" if self._steps_done > 1 else "Check losses() for division by zero"
            kept = "; the previous checkpoint is kept" if self.folder.checkpoint.exists() else ""
            raise TrainingError(
                f"the loss became {progress.loss_sum} in epoch {progress.epoch + 1}, step "
                f"{progress.step + 1}. {remedy}{kept}."
            )
        return stopped

    def _learn(self, batch: Any, rows: int, total: int) -> tuple[float, int, float, float]:
        """Gradients of the mean loss over `total` rows, of which this batch has `rows`.

        Returns the sum of losses, the number of right answers, and the seconds that the program and
        the network took.
        """
        times = [self._now()]
        dtype = torch.bfloat16 if self.config.precision == "bf16" else None
        device = self.processes.device.type
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            outputs = self.task.read(self.network, batch)
        checks.check_outputs(self.task, outputs)
        times.append(self._now())
        cut: Outputs = tuple(o.detach().float().requires_grad_() for o in outputs)
        losses = self.task.losses(cut, batch)
        checks.check_losses(self.task, losses, rows)
        (losses.sum() / total).backward()
        times.append(self._now())
        pairs = [
            (o, c.grad.to(o.dtype)) for o, c in zip(outputs, cut, strict=True) if c.grad is not None
        ]
        torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        times.append(self._now())
        symbolic, neural = times[2] - times[1], times[1] - times[0] + times[3] - times[2]
        with torch.no_grad():
            right = sum(self.task.right(self.task.guesses(cut, batch), batch))
        return float(losses.detach().sum()), right, symbolic, neural

    def _now(self) -> float:
        if self.processes.device.type == "cuda":
            torch.cuda.synchronize(self.processes.device)
        return time.perf_counter()

    def _rate(self) -> float:
        done = self.progress.epoch * self.steps + self.progress.step
        total = self.config.epochs * self.steps
        return self.config.lr * schedule(self.config.schedule, done / total)

    def _state(self) -> State:
        progress = self.progress
        seen = max(1, progress.seen)
        return State(
            epoch=progress.epoch + 1,
            epochs=self.config.epochs,
            step=progress.step,
            steps=self.steps,
            loss=progress.loss_sum / seen,
            accuracy=progress.right / seen,
            speed=progress.seen / max(1e-9, progress.seconds),
            symbolic_share=progress.symbolic_share,
            seconds=progress.seconds,
            trained=progress.total_seconds + progress.seconds,
            evaluations=self._row_cost * self._rows_to_evaluate(),
        )

    def _earlier(self) -> list[State]:
        """The epochs before this process, of a run that is continued."""
        return [
            State(
                epoch=line["epoch"],
                epochs=self.config.epochs,
                step=self.steps,
                steps=self.steps,
                loss=line["loss"],
                accuracy=line["train_accuracy"],
                speed=self.count / max(1e-9, line["seconds"]),
                symbolic_share=line["symbolic_share"],
                seconds=line["seconds"],
                validation=line["validation_accuracy"],
                perception=line["perception_accuracy"],
                chosen=line["epoch"] == self.progress.best_epoch,
            )
            for line in self.progress.history
        ]

    def _rows_to_evaluate(self) -> int:
        """Validation rows of the epochs that are left, and the test rows."""
        epochs = self.config.epochs - self.progress.epoch
        return epochs * self._used(self.data.validation) + self._used(self.data.test)

    # -- checkpoints -------------------------------------------------------------------------------

    def _weights(self) -> dict[str, Any]:
        return {"task": self.task.name, "network": self.network.state_dict()}

    def _save(self) -> None:
        if self.processes.main:
            content = {
                **self._weights(),
                "config": self.config.as_json(),
                "optimizer": self.optimizer.state_dict(),
                "generator": torch.get_rng_state(),
                "count": self.count,
                "progress": asdict(self.progress),
            }
            checkpoint.save(self.folder.checkpoint, content)

    def _restore(self) -> None:
        path = self.folder.checkpoint
        content = checkpoint.load(path, self.task.name)
        stored = type(self.config).from_json(checkpoint.part(content, "config", dict, path))
        different = stored.differences(self.config)
        if different:
            raise RunError(
                f"{self.folder.path} was started with other options: {'; '.join(different)}. Leave "
                "them out to continue that run, or choose another --out without --resume."
            )
        count = checkpoint.part(content, "count", int, path)
        if count != self.count:
            raise RunError(
                f"{self.folder.path} was started with {count:,} training samples, now "
                f"there are {self.count:,}: the data is not the same."
            )
        progress = checkpoint.part(content, "progress", dict, path)
        checkpoint.load_weights(self.network, checkpoint.part(content, "network", dict, path), path)
        checkpoint.load_optimizer(
            self.optimizer, checkpoint.part(content, "optimizer", dict, path), path
        )
        try:
            torch.set_rng_state(checkpoint.part(content, "generator", Tensor, path))
            self.progress = Progress.restored(progress)
        except (TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise checkpoint.CheckpointError(f"{path} is incomplete: {reason}") from None

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self) -> dict[str, Any]:
        """Read the test set, once, with the weights that validation chose."""
        progress = self.progress
        self.display.doing("testing")
        self.processes.wait()  # until the best weights are on disk
        best = checkpoint.load(self.folder.best, self.task.name)
        weights = checkpoint.part(best, "network", dict, self.folder.best)
        checkpoint.load_weights(self.network, weights, self.folder.best)
        result = evaluate(
            self.task,
            self.network,
            self.data.test,
            self.processes,
            limit=self.config.test_samples,
            between=self._stop.raise_if_asked,
        )
        validated = progress.history[progress.best_epoch - 1]["validation_accuracy"]
        results = {
            "task": reference(type(self.task)),
            "test_accuracy": result.accuracy,
            "perception_accuracy": result.perception_accuracy,
            "validation_accuracy": validated,
            "epochs": progress.epoch,
            "best_epoch": progress.best_epoch,
            "train_seconds": round(progress.total_seconds, 2),
            "symbolic_share": round(progress.symbolic_share, 5),
            "train_samples": self.count,
            "test_samples": result.total,
            "data": portable(self.data.source),
            "processes": self.processes.size,
            "versions": versions(),
            "config": self.config.as_json(),
        }
        if result.groups:
            results["accuracy_by_group"] = result.groups
        further: dict[str, Any] = {}
        if self.processes.main:
            further = self.task.more_results(self.network.eval(), self.data.test)
            results.update(further)
            self.folder.write_json("results.json", results)
            self.display.doing("drawing")
            familiar.remember(self.task, self.data.train, self.folder.familiar)
            plots.draw_run(
                self.task, self.network, self.data.test, result, self.folder, progress.best_epoch
            )
        chosen = "" if validated is None else ", chosen by validation"
        self.display.line(
            f"test: {result.accuracy:.2%} of {result.total:,} answers right"
            f"{result.perception_note} (epoch {progress.best_epoch}{chosen}); the program took "
            f"{progress.symbolic_share:.1%} of a step"
        )
        for line in further_lines(further):
            self.display.line(line)
        return results
