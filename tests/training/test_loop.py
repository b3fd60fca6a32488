"""The training loop: what it selects, when it stops, and that stopping changes nothing."""

import itertools
import signal
import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.models.node import QGNN
from quatgraph.training.batches import WholeData
from quatgraph.training.checkpoint import load_checkpoint, save_checkpoint
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Fit, Paused, Plan, fit
from quatgraph.training.optim import OPTIMIZERS, MemberAdam
from quatgraph.training.runtime import Deadline
from quatgraph.training.schedule import Plateau


class Counter(nn.Module):
    """Under Adam with rate one its number is minus the epochs trained."""

    def __init__(self) -> None:
        super().__init__()
        self.number = nn.Parameter(torch.zeros(()))

    def forward(self) -> Tensor:
        return self.number


def scripted(script: list[list[float]], plan: Plan) -> Fit:
    """Trains counters; at epoch t the members' metrics are ``script[t - 1]``."""
    members = len(script[0])
    # Before the first epoch the metric is better than it ever gets, but not to be chosen.
    table = torch.tensor([[1e6] * members, *script])
    ensemble = Ensemble([Counter] * members, range(members))
    adam = MemberAdam(ensemble.parameters(), lr=[1.0] * members, weight_decay=[0.0] * members)

    def evaluate() -> dict[str, Tensor]:
        epoch = -ensemble().round().long()
        return {"valid/accuracy": table[epoch, torch.arange(members)], "test/epoch": epoch.float()}

    def loss(batch: None) -> Tensor:
        return ensemble()

    result = fit(ensemble, adam, loss=loss, evaluate=evaluate, batches=WholeData(None), plan=plan)
    assert torch.equal(ensemble(), result.weights["number"])
    return result


SCRIPT = [[0.1, 0.9], [0.5, 0.2], [0.5, 0.3], [0.4, 0.9], [0.3, 0.8]]


def trained_epochs(result: Fit) -> list[int]:
    return (-result.weights["number"]).round().int().tolist()


def test_the_last_epoch_is_selected_unless_asked_otherwise():
    result = scripted(SCRIPT, Plan(epochs=5))
    assert result.best_epoch.tolist() == [5, 5]
    assert result.metrics["valid/accuracy"].tolist() == pytest.approx([0.3, 0.8])
    assert trained_epochs(result) == [5, 5]


def test_the_first_best_epoch_of_each_member_is_restored():
    result = scripted(SCRIPT, Plan(epochs=5, select="best-valid"))
    assert result.best_epoch.tolist() == [2, 1]
    assert result.metrics["valid/accuracy"].tolist() == pytest.approx([0.5, 0.9])
    assert result.metrics["test/epoch"].tolist() == [2, 1]
    assert trained_epochs(result) == [2, 1]
    assert not any(value.requires_grad for value in result.weights.values())
    torch.testing.assert_close(result.curves["valid/accuracy"], torch.tensor(SCRIPT))
    assert result.curve_epochs == [1, 2, 3, 4, 5]
    assert result.epochs_run == 5


def test_another_metric_can_be_monitored():
    plan = Plan(epochs=3, select="best-valid", monitor="test/epoch")
    assert scripted(SCRIPT, plan).best_epoch.tolist() == [3, 3]


@pytest.mark.parametrize("paused", [False, True])
def test_patience_makes_a_members_choice_final_while_the_others_go_on(tmp_path, paused):
    # Member 0 improves once more at epoch 5, after two evaluations without: too late.
    script = [[0.5, 0.1], [0.4, 0.2], [0.3, 0.3], [0.4, 0.4], [0.9, 0.5], [0.9, 0.4], [0.9, 0.4]]
    script += [[1.0, 1.0]] * 3
    plan = Plan(epochs=10, select="best-valid", patience=2)
    if paused:
        plan = replace(plan, checkpoint=tmp_path, resume=True, deadline=Deadline(0))
        for _ in range(7):
            with pytest.raises(Paused):
                scripted(script, plan)
    result = scripted(script, plan)
    assert result.best_epoch.tolist() == [1, 5]
    assert trained_epochs(result) == [1, 5]
    assert result.epochs_run == 7
    assert result.curve_epochs == list(range(1, 8))
    assert result.curves["valid/accuracy"].shape == (7, 2)


def test_evaluations_may_be_rarer_than_epochs_but_the_last_epoch_is_always_measured():
    result = scripted(SCRIPT, Plan(epochs=5, select="best-valid", evaluate_every=2))
    assert result.curve_epochs == [2, 4, 5]
    assert result.curves["test/epoch"][:, 0].tolist() == [2, 4, 5]
    assert result.best_epoch.tolist() == [2, 4]
    assert trained_epochs(result) == [2, 4]


def test_progress_is_reported_to_the_end():
    reported = []
    scripted(SCRIPT, Plan(epochs=5, progress=lambda *now: reported.append(now)))
    assert reported == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_the_remaining_time_is_reported_once_with_the_share_of_evaluations(monkeypatch, tmp_path):
    # Every look at the clock is two seconds after the last, so an epoch, a draw and a step, takes
    # four, and an evaluation two.
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 2.0 * next(ticks))
    reported = []
    plan = Plan(epochs=5, evaluate_every=2, report_eta=reported.append)
    scripted(SCRIPT, plan)
    assert reported == [4 * (4 + 2 / 2)]
    reported.clear()
    paused = replace(plan, checkpoint=tmp_path, resume=True, deadline=Deadline(0))
    for _ in range(2):
        with pytest.raises(Paused):
            scripted(SCRIPT, paused)
    assert reported == [4 * 5, 3 * 5]
    reported.clear()
    monkeypatch.setattr("quatgraph.training.loop.ETA_AFTER", 100.0)
    scripted(SCRIPT, plan)
    assert reported == []


def test_monitoring_what_is_not_measured_is_a_mistake():
    plan = Plan(epochs=5, select="best-valid", monitor="valid/acuracy")
    for mistaken in (plan, replace(plan, select="last", plateau=Plateau(0.5, 1))):
        with pytest.raises(
            UserError, match="valid/acuracy is not measured; there are test/epoch, valid"
        ):
            scripted(SCRIPT, mistaken)


@pytest.mark.parametrize("select", ["last", "best-valid"])
def test_the_learning_rate_of_a_member_drops_when_its_own_metric_stays(select):
    # Under Adam a counter moves by its rate. Member 1 improves at every epoch.
    script = [[0.5, 0.1], [0.5, 0.2], [0.4, 0.3], [0.4, 0.4], [0.4, 0.5], [0.4, 0.6]]
    table = torch.tensor(script)
    members = Ensemble([Counter] * 2, range(2))
    adam = MemberAdam(members.parameters(), lr=[1.0] * 2, weight_decay=[0.0] * 2)
    moved = []

    def evaluate() -> dict[str, Tensor]:
        moved.append((-members()).tolist())
        return {"valid/accuracy": table[max(0, len(moved) - 2)]}

    plan = Plan(epochs=6, select=select, plateau=Plateau(0.25, 1))
    fit(
        members,
        adam,
        loss=lambda _: members(),
        evaluate=evaluate,
        batches=WholeData(None),
        plan=plan,
    )
    # Two epochs without a better one are tolerated once: the rate drops after the third and fifth.
    steps = torch.tensor(moved[1:]).diff(dim=0)
    torch.testing.assert_close(steps[:, 0], torch.tensor([1.0, 1.0, 0.25, 0.25, 0.0625]))
    torch.testing.assert_close(steps[:, 1], torch.ones(5))


PLAN = Plan(epochs=6, select="best-valid", key="mine")


def train(
    plan: Plan = PLAN,
    *,
    device: str = "cpu",
    measured=(),
    seeds=(0, 1),
    optimizer="adam",
) -> Fit:
    """Two QGNNs with dropout on a ring of twelve nodes; each call starts anew."""
    draw = torch.Generator().manual_seed(1)
    x, y = torch.rand(12, 5, generator=draw), torch.randint(3, (12,), generator=draw).to(device)
    ring = torch.stack((torch.arange(12), (torch.arange(12) + 1) % 12))
    graph, x = Adjacency.of(torch.cat((ring, ring.flip(0)), 1), 12).to(device), x.to(device)
    ensemble = Ensemble([lambda: QGNN(5, 3, num_layers=2)] * 2, seeds).to(device)
    how = {"lr": [0.1, 0.01], "weight_decay": [0, 5e-4], "clip": 1.0}
    stepper = OPTIMIZERS[optimizer](ensemble.parameters(), **how)

    def loss(x: Tensor) -> Tensor:
        logits = ensemble(x, graph)
        return torch.vmap(nn.functional.cross_entropy, in_dims=(0, None))(logits, y)

    def evaluate() -> dict[str, Tensor]:
        accuracy = (ensemble(x, graph).argmax(-1) == y).float().mean(-1)
        return dict.fromkeys(("valid/accuracy", *measured), accuracy)

    return fit(ensemble, stepper, loss=loss, evaluate=evaluate, batches=WholeData(x), plan=plan)


def assert_same_bits(one: Fit, other: Fit) -> None:
    assert torch.equal(one.best_epoch, other.best_epoch)
    assert one.curve_epochs == other.curve_epochs
    for mine, wanted in ((one.curves, other.curves), (one.weights, other.weights)):
        assert mine.keys() == wanted.keys()
        for name in mine:
            assert torch.equal(mine[name], wanted[name]), name


def test_a_seed_decides_every_bit_and_another_seed_other_ones():
    assert_same_bits(train(), train())
    last = replace(PLAN, select="last")
    one, other = train(last), train(last, seeds=(2, 3))
    assert not torch.equal(one.weights["prediction.weight"], other.weights["prediction.weight"])


def test_the_callers_random_numbers_are_untouched(tmp_path):
    before = torch.get_rng_state()
    train()
    with pytest.raises(Paused):
        train(replace(PLAN, checkpoint=tmp_path, deadline=Deadline(0)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("select", ["last", "best-valid"])
def test_a_run_paused_after_every_epoch_ends_as_one_never_paused(tmp_path, select, optimizer):
    plan = replace(PLAN, select=select, plateau=Plateau(0.5, 1))
    stopped = replace(plan, checkpoint=tmp_path, resume=True, deadline=Deadline(0))
    for done in range(1, plan.epochs):
        with pytest.raises(Paused, match=f"after {done} of 6 epochs"):
            train(stopped, optimizer=optimizer)
    whole = train(plan, optimizer=optimizer)
    assert_same_bits(train(stopped, optimizer=optimizer), whole)
    constant = train(replace(plan, plateau=None), optimizer=optimizer)
    same = torch.equal(whole.weights["prediction.weight"], constant.weights["prediction.weight"])
    assert same == (optimizer == "nesterov")  # whose steps are bounded by the curvature


def test_without_resume_a_checkpoint_is_not_continued(tmp_path):
    plan = replace(PLAN, checkpoint=tmp_path)
    with pytest.raises(Paused):
        train(replace(plan, deadline=Deadline(0)))
    reported = []
    assert_same_bits(train(replace(plan, progress=lambda *now: reported.append(now))), train())
    assert reported[0] == (1, 6)


@pytest.mark.parametrize("other", [{"key": "another"}, {"epochs": 7}])
def test_a_checkpoint_of_another_run_is_refused(tmp_path, other):
    plan = replace(PLAN, checkpoint=tmp_path, resume=True)
    with pytest.raises(Paused):
        train(replace(plan, deadline=Deadline(0)))
    with pytest.raises(UserError, match="another run"):
        train(replace(plan, **other))


@pytest.mark.parametrize("before", [(), ("valid/other",)])
def test_a_checkpoint_of_other_measures_is_refused(tmp_path, before):
    plan = replace(PLAN, checkpoint=tmp_path, resume=True)
    with pytest.raises(Paused):
        train(replace(plan, deadline=Deadline(0)), measured=before)
    with pytest.raises(UserError, match="another run"):
        train(plan, measured=("valid/macro-f1",))


def interrupt_after(epochs: int):
    return lambda done, total: signal.raise_signal(signal.SIGINT) if done == epochs else None


@pytest.mark.parametrize("epoch", [2, PLAN.epochs])
def test_control_c_leaves_a_checkpoint_from_which_the_run_ends_as_if_uninterrupted(tmp_path, epoch):
    plan = replace(PLAN, checkpoint=tmp_path, resume=True)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(replace(plan, progress=interrupt_after(epoch)))
    assert signal.getsignal(signal.SIGINT) is handler
    reported = []
    plan = replace(plan, progress=lambda done, _: reported.append(done))
    assert_same_bits(train(plan), train())
    assert reported == list(range(epoch + 1, PLAN.epochs + 1))


def test_checkpoints_are_also_written_while_training_goes_on(tmp_path):
    found = []
    progress = lambda *_: found.append(load_checkpoint(tmp_path))  # noqa: E731
    train(replace(PLAN, checkpoint=tmp_path, save_every=0.0, progress=progress))
    assert [state["epoch"] for _, state in filter(None, found)] == [1, 2, 3, 4, 5]


LONG = replace(PLAN, epochs=60)  # the host looks at a GPU every 25 epochs


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("select", ["last", "best-valid"])
def test_captured_steps_equal_eager_ones_bit_for_bit(select, optimizer):
    plan = replace(LONG, select=select, plateau=Plateau(0.9, 2))
    how = {"device": "cuda", "optimizer": optimizer}
    assert_same_bits(train(plan, **how), train(replace(plan, capture=False), **how))


@pytest.mark.gpu
def test_a_captured_run_repeats_bit_for_bit():
    assert_same_bits(train(LONG, device="cuda"), train(LONG, device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("capture", [True, False])
def test_a_paused_gpu_run_ends_as_one_never_paused(tmp_path, capture):
    plan = replace(LONG, capture=capture)
    stopped = replace(plan, checkpoint=tmp_path, resume=True, deadline=Deadline(0))
    for done in (25, 50):
        with pytest.raises(Paused, match=f"after {done} of 60 epochs"):
            train(stopped, device="cuda")
    assert_same_bits(train(stopped, device="cuda"), train(plan, device="cuda"))


@pytest.mark.gpu
def test_the_callers_gpu_random_numbers_are_untouched():
    before = torch.cuda.get_rng_state()
    train(LONG, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_a_checkpoint_of_another_device_is_refused(tmp_path):
    plan = replace(PLAN, checkpoint=tmp_path, deadline=Deadline(0))
    with pytest.raises(Paused):
        train(plan)
    tensors, state = load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, tensors, state | {"device": "cuda"})
    with pytest.raises(UserError, match="made on cuda: resume it with --device cuda"):
        train(replace(plan, resume=True))
