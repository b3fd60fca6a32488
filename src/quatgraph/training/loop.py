"""The training loop: epochs, selection and early stopping for all members of an ensemble at once.

Nothing inside an epoch waits for the device. On a GPU the step (forward, loss, backward, clipping,
optimizer) and the evaluation (metrics, curves, best weights, patience, learning rates) are captured
as CUDA graphs and replayed: one graph per shape of a batch, or one for several steps whose batches
are loaded together. The host synchronises only between epochs, to draw batches, report progress,
write a checkpoint, or stop.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.ops.backend import use_triton
from quatgraph.signals import defer_signals
from quatgraph.training.batches import Batches, WholeData, group_steps
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.optim import MemberOptimizer
from quatgraph.training.ranks import State, copy_tensors
from quatgraph.training.runtime import NO_DEADLINE, Deadline, Stopwatch
from quatgraph.training.schedule import Plateau, PlateauSchedule

Batch = TypeVar("Batch")
T = TypeVar("T")
Metrics = dict[str, Tensor]
Select = Literal["last", "best-valid"]

_SYNC_EVERY = {"cpu": 1, "cuda": 25}  # epochs between two synchronisations with the host
_WARM_UPS = 3
ETA_AFTER = 3.0
"""Seconds of training after which the remaining time is estimated: the first steps are slow."""


class Paused(Exception):  # noqa: N818
    """Training stopped at its deadline; ``resume`` continues from the saved checkpoint."""

    def __init__(self, done: int, epochs: int) -> None:
        super().__init__(f"stopped after {done} of {epochs} epochs")
        self.done, self.epochs = done, epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long to train, which epoch to select, where to save checkpoints, what to report."""

    epochs: int
    select: Select | Sequence[Select] = "last"
    """``last``: the last epoch; ``best-valid``: the first epoch with the highest ``monitor``. One
    rule for all members, or one per member."""
    monitor: str = "valid/accuracy"
    patience: int | None = None
    """Evaluations without a better ``monitor`` after which a member's selection is final."""
    plateau: Plateau | None = None
    """How the learning rates follow ``monitor``; constant by default."""
    evaluate_every: int = 1
    checkpoint: Path | None = None
    resume: bool = False
    save_every: float = 60.0
    """Seconds between two checkpoints."""
    key: str = ""
    """Identifies the run: a checkpoint with another key is refused."""
    deadline: Deadline = NO_DEADLINE
    capture: bool = True
    """Whether a GPU replays captured steps; if not, it launches each operation."""
    progress: Callable[[int, int], None] = lambda done, total: None
    """Called with the number of epochs done and the total."""
    report_eta: Callable[[float], None] = lambda seconds: None
    """Called once, after :data:`ETA_AFTER` seconds of training, with the seconds remaining."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The result of a training; ``(M,)`` has one number per member."""

    best_epoch: Tensor
    """The selected epoch of each member, counted from 1, ``(M,)``."""
    metrics: Metrics
    """At the selected epoch, each ``(M,)``."""
    curves: dict[str, Tensor]
    """At every evaluation, each ``(T, M)``."""
    curve_epochs: list[int]
    """The epochs those evaluations followed."""
    weights: dict[str, Tensor]
    """The selected parameters and buffers, each ``(M, ...)``."""
    loss: Tensor
    """Of the training step before the selected evaluation, ``(M,)``."""
    seconds: float
    """Wall time of the training steps, without evaluation and without warm-up."""
    epochs_run: int
    device: torch.device
    outputs: list[dict[str, Tensor]] = field(default_factory=list)
    """For each member of a classifier its ``valid/logits``, ``valid/labels``, ``test/logits`` and
    ``test/labels`` at the selected epoch, on the CPU; validation data also selects combinations of
    members. Of nodes ``all/logits`` instead. Empty for other models."""


def fit(
    ensemble: Ensemble,
    optimizer: MemberOptimizer,
    *,
    loss: Callable[[Batch], Tensor],
    evaluate: Callable[[], Metrics],
    batches: Batches[Batch],
    plan: Plan,
) -> Fit:
    """Trains every member, and leaves and returns each at its selected epoch.

    Args:
        loss: The loss of each member on a batch, ``(M,)``.
        evaluate: Metrics named ``part/metric``, each ``(M,)``; called without gradients and with
            the ensemble in evaluation mode. Neither function may wait for the device.
        batches: The batches of an epoch.

    The caller removes the checkpoint after storing the result.

    Raises:
        Paused: The plan's deadline passed; a checkpoint holds the state.
        KeyboardInterrupt: Ctrl-C, SIGTERM or a closed terminal, with the signal's number; a
            checkpoint holds the state.
    """
    device = optimizer.lr.device
    on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with on_device:
        run = _Run(ensemble, optimizer, loss, evaluate, batches, plan)
        if plan.checkpoint is not None and plan.resume:
            run.restore(run.ranks.load(plan.checkpoint))
        every = _SYNC_EVERY[device.type] if isinstance(batches, WholeData) else 1
        saved_at = time.monotonic()
        with defer_signals() as interrupt:
            while run.epoch < plan.epochs and not run.all_stopped():
                run.train_epochs(min(every, plan.epochs - run.epoch))
                plan.progress(run.epoch, plan.epochs)
                run.report_eta()
                unfinished = run.epoch < plan.epochs
                number, passed, due = run.ranks.agree(
                    interrupt.number,
                    unfinished and plan.deadline.passed(),
                    time.monotonic() - saved_at > plan.save_every,
                )
                if plan.checkpoint is not None and (number or passed or due):
                    run.save()
                    saved_at = time.monotonic()
                if number:
                    raise KeyboardInterrupt(int(number))
                if passed:
                    raise Paused(run.epoch, plan.epochs)
        return run.finish()


@dataclass(eq=False)
class _Run(Generic[Batch]):
    """The state of one training; :meth:`tensors` is what a checkpoint holds."""

    ensemble: Ensemble
    optimizer: MemberOptimizer
    loss: Callable[[Batch], Tensor]
    evaluate: Callable[[], Metrics]
    batches: Batches[Batch]
    plan: Plan

    def __post_init__(self) -> None:
        plan, members = self.plan, self.ensemble.num_members
        self.ranks = self.ensemble.ranks
        self.device = device = self.optimizer.lr.device
        # Without the Triton kernels some operations synchronise with the host.
        self.replays = plan.capture and device.type == "cuda" and use_triton(self.optimizer.lr)
        self.clock, self.eval_clock, self.eta_reported = Stopwatch(device), Stopwatch(device), False
        # The first launch on a GPU does not predict the time of a replay.
        with nullcontext() if self.replays else self.eval_clock:
            self.names = sorted(self._measure())
        self.num_timed_evaluations = int(not self.replays)
        select = [plan.select] * members if isinstance(plan.select, str) else list(plan.select)
        self.selects = "best-valid" in select
        self.schedule = plan.plateau and PlateauSchedule(plan.plateau, self.optimizer.lr)
        if (self.selects or self.schedule) and plan.monitor not in self.names:
            raise UserError(f"{plan.monitor} is not measured; there are {', '.join(self.names)}")
        self.keeps_last = torch.tensor([rule == "last" for rule in select], device=device)
        self.epoch = 0
        evaluations = -(-plan.epochs // plan.evaluate_every)
        self.curves = torch.zeros(evaluations, len(self.names), members, device=device)
        self.evaluation = torch.zeros(1, dtype=torch.int64, device=device)
        # In float64: scores may differ by less than float32 resolves.
        self.best = torch.full((members,), -torch.inf, device=device, dtype=torch.float64)
        self.best_evaluation = torch.zeros(members, dtype=torch.int64, device=device)
        self.step_loss = torch.zeros(members, device=device)  # of the last step
        self.best_loss = torch.full((members,), torch.nan, device=device)
        self.stale = torch.zeros(members, dtype=torch.int64, device=device)
        self.best_weights = {
            name: value.detach().clone()
            for name, value in self.ensemble.raw_state().items()
            if self.selects
        }
        self.loss_weights = torch.ones(members, device=device)
        self.captured: dict[Hashable, tuple[torch.cuda.CUDAGraph, Any]] = {}

    def restore(
        self, checkpoint: tuple[State, Callable[[Mapping[str, Tensor]], None]] | None
    ) -> None:
        """Restores a checkpoint, if there is one; it must be of this run and type of device."""
        if checkpoint is None:
            return
        state, copy_into = checkpoint
        if state["device"] != self.device.type:
            raise UserError(
                f"{self.plan.checkpoint} holds a checkpoint made on {state['device']}: resume it "
                f"with --device {state['device']}, since {self.device.type} rounds differently"
            )
        measured = state["names"], state["shapes"].get("curves")
        own = self.plan.key, self.plan.epochs, (self.names, list(self.curves.shape))
        if (state["key"], state["epochs"], measured) != own:
            raise UserError(
                f"{self.plan.checkpoint} holds a checkpoint of another run: "
                "repeat that run's settings and data, or choose another folder"
            )
        copy_into(self.tensors())
        self.epoch = int(state["epoch"])
        self.clock.total = float(state["seconds"])

    def train_epochs(self, num_epochs: int) -> None:
        for _ in range(num_epochs):
            with self.clock:
                shapes = self.batches.draw(self.epoch)
            for step, count in group_steps(shapes, self.batches.max_loaded if self.replays else 1):
                with self.clock if self.batches.draws_late else nullcontext():
                    loaded = self.batches.load(step, count)
                name = "train", shapes[step], count
                train = self._ready(name, partial(self._train_on, loaded))
                with self.clock:
                    loss = train()
            self.step_loss.copy_(loss)
            self.epoch += 1
            if self.epoch % self.plan.evaluate_every == 0 or self.epoch == self.plan.epochs:
                evaluate = self._ready("evaluate", self._evaluate_once)
                with self.eval_clock:
                    evaluate()
                self.num_timed_evaluations += 1
        self.clock.read()  # waits for the device, so that progress is true
        self.eval_clock.read()

    def report_eta(self) -> None:
        """Reports the remaining time, once enough steps have been timed."""
        waits = not self.num_timed_evaluations and self.plan.evaluate_every < self.plan.epochs
        if self.eta_reported or waits or self.clock.total < ETA_AFTER:
            return
        self.eta_reported = True
        evaluation = self.eval_clock.total / max(1, self.num_timed_evaluations)
        epoch = self.clock.total / self.epoch + evaluation / self.plan.evaluate_every
        self.plan.report_eta(epoch * (self.plan.epochs - self.epoch))

    def all_stopped(self) -> bool:
        patience = self.plan.patience
        return patience is not None and bool((self.stale >= patience).all())

    def save(self) -> None:
        assert self.plan.checkpoint is not None
        state = {
            "key": self.plan.key,
            "device": self.device.type,
            "epoch": self.epoch,
            "epochs": self.plan.epochs,
            "names": self.names,
            "seconds": self.clock.read(),
        }
        self.ranks.save(self.plan.checkpoint, self.tensors(), state)

    def finish(self) -> Fit:
        seconds = self.clock.read()
        count = int(self.evaluation)
        every = self.plan.evaluate_every
        epochs = [min((i + 1) * every, self.epoch) for i in range(count)]
        curves = self.curves[:count].cpu()
        if self.selects:
            chosen, held = self.best_evaluation.cpu(), self.best_weights
            copy_tensors(self.ensemble.raw_state(), held)
        else:
            chosen = torch.full((self.ensemble.num_members,), count - 1)
            held = {k: v.detach().clone() for k, v in self.ensemble.raw_state().items()}
        members = torch.arange(self.ensemble.num_members)
        return Fit(
            best_epoch=torch.tensor(epochs)[chosen],
            metrics={name: curves[chosen, i, members] for i, name in enumerate(self.names)},
            curves={name: curves[:, i] for i, name in enumerate(self.names)},
            curve_epochs=epochs,
            weights=self.ensemble.stacked(held),
            loss=(self.best_loss if self.selects else self.step_loss).cpu(),
            seconds=seconds,
            epochs_run=self.epoch,
            device=self.device,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that training changes, by name."""
        schedule = self.schedule.tensors() if self.schedule else {}
        return {
            "curves": self.curves,
            "evaluation": self.evaluation,
            "best": self.best,
            "best_evaluation": self.best_evaluation,
            "step_loss": self.step_loss,
            "best_loss": self.best_loss,
            "stale": self.stale,
            "draws": self.ensemble.draws,
            **{f"best/{name}": value for name, value in self.best_weights.items()},
            **{f"model/{name}": value for name, value in self.ensemble.raw_state().items()},
            **{f"optimizer/{name}": value for name, value in self.optimizer.tensors().items()},
            **{f"schedule/{name}": value for name, value in schedule.items()},
        }

    def _train_on(self, batches: Sequence[Batch]) -> Tensor:
        """Takes a step on each batch and returns the loss of the last."""
        self.ensemble.train()
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.loss(batch)
            torch.autograd.backward(loss, self.loss_weights)
            self.optimizer.step()
        return loss.detach()

    def _measure(self) -> Metrics:
        self.ensemble.eval()
        with torch.no_grad():
            return self.evaluate()

    @torch.no_grad()
    def _evaluate_once(self) -> None:
        metrics = self._measure()
        row = torch.stack([metrics[name].to(self.curves.dtype) for name in self.names])
        self.curves.index_copy_(0, self.evaluation, row[None])
        if self.schedule:
            self.schedule.step(metrics[self.plan.monitor])
        if self.selects:
            value = metrics[self.plan.monitor].to(self.best.dtype)
            better = (value > self.best) | self.keeps_last
            if self.plan.patience is not None:
                better &= self.stale < self.plan.patience
            self.best.copy_(torch.where(better, value, self.best))
            self.best_evaluation.copy_(torch.where(better, self.evaluation, self.best_evaluation))
            self.best_loss.copy_(torch.where(better, self.step_loss, self.best_loss))
            self.stale.copy_(torch.where(better, 0, self.stale + 1))
            for name, weight in self.ensemble.raw_state().items():
                best = self.best_weights[name]
                mask = better.view(-1, *[1] * (weight.dim() - 1))
                best.copy_(torch.where(mask, weight, best))
        self.evaluation += 1

    def _ready(self, name: Hashable, work: Callable[[], T]) -> Callable[[], T]:
        """The work itself, or on a GPU its replay, captured on first use.

        The result of a replay is valid until the next one, which may use the same memory.
        """
        if not self.replays:
            return work
        if name not in self.captured:
            self.captured[name] = self._capture(work)
        graph, result = self.captured[name]

        def replay() -> T:
            graph.replay()
            return result

        return replay

    def _capture(self, work: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
        """Captures the work as a CUDA graph; the warm-up leaves the state unchanged."""
        before = {name: value.detach().clone() for name, value in self.tensors().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                work()
                self.evaluation.zero_()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad()
        graph = torch.cuda.CUDAGraph()
        # One memory pool for all graphs: they never run concurrently.
        pool = next((other.pool() for other, _ in self.captured.values()), None)
        with torch.cuda.graph(graph, pool=pool):
            result = work()
        self.optimizer.zero_grad()
        copy_tensors(self.tensors(), before)
        return graph, result
