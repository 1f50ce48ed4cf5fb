"""Word problems: what is generated, what the program makes of it, and what is trained."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

pytest.importorskip("transformers")

import dolphin as dl
import tiny_models
from dolphin.lm import LanguageModel
from dolphin_tasks.words import model, program
from dolphin_tasks.words.adapters import AdaptedModel
from dolphin_tasks.words.problems import HELD_OUT, TRAINING, ProblemBatch, make_problems
from dolphin_tasks.words.task import Problems, WordsConfig, WordsTask


def tiny_language() -> LanguageModel:
    tokenizer = tiny_models.byte_level_tokenizer()
    return LanguageModel(tiny_models.tiny_llama(len(tokenizer)), tokenizer)


@pytest.fixture
def task(monkeypatch):
    monkeypatch.setattr(model, "load_language_model", lambda *_: tiny_language())
    return WordsTask(WordsConfig(training=16, testing=8, rank=4, blocks=1))


def perfect(problems) -> tuple[torch.Tensor]:
    """What a model would say that reads everything right."""
    listed = [program.calculations(program.numbers_in(p.text)) for p in problems]
    logs = torch.full((len(problems), max(map(len, listed))), -torch.inf)
    for row, (own, problem) in enumerate(zip(listed, problems, strict=True)):
        logs[row, own.index(problem.calculation)] = 0.0
    return (logs,)


def test_problems_are_what_they_say():
    known, new = make_problems(80, 0), make_problems(80, 0, held_out=True)
    for problem in known + new:
        assert problem.calculation in program.calculations(program.numbers_in(problem.text))
        assert program.carry_out(problem.calculation) == problem.answer
        assert problem.answer.denominator == 1 and problem.answer > 0
    assert known == make_problems(80, 0) != make_problems(80, 1)
    assert not {t for own in TRAINING.values() for t in own} & {
        t for own in HELD_OUT.values() for t in own
    }
    numbers = [{n for p in some for n in program.numbers_in(p.text)} for some in (known, new)]
    products = {x * y for x in (2, 4, 5, 6, 8, 9, 12) for y in (2, 4, 5, 6, 8, 9, 12)}
    products |= {x * y for x in (3, 7, 11) for y in (3, 7, 11)}
    assert not (numbers[0] & numbers[1]) - products


def test_perfect_reading_gives_perfect_answers(task):
    problems = make_problems(40, 3)
    batch, outputs = ProblemBatch(problems), perfect(problems)
    assert all(task.right(task.answers(outputs, batch), batch))
    assert float(task.losses(outputs, batch).sum()) < 1e-4
    read, true = task.perceived(outputs, batch)
    assert torch.equal(read, true)


def test_equal_results_are_added():
    logs = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log()
    result = program.results(logs, [["2+2", "2*2", "7-2", "1/0"]])
    assert result.row(0) == [(Fraction(4), 0.3), (Fraction(5), 0.3), (None, 0.4)]


def test_every_adapter_learns_and_nothing_else(task):
    network = task.network()
    batch = task.data().train.batch(torch.arange(4))
    assert not any(p.requires_grad for p in network.model.parameters())
    task.losses(task.read(network, batch), batch).mean().backward()
    assert all(float(a.up.weight.grad.abs().sum()) > 0 for a in network.adapters.values())
    assert len(network.adapters) == 5  # of the last block alone
    weights = set(network.state_dict())
    assert weights == {n for n, _ in network.named_parameters()}


def test_adapters_start_as_nothing_and_can_be_switched_off(task):
    network = task.network()
    batch = task.data().test.batch(torch.arange(4))
    with torch.no_grad():
        before = task.read(network, batch)[0]
        for adapter in network.adapters.values():
            adapter.up.weight.normal_()
        after = task.read(network, batch)[0]
        assert (before - after).nan_to_num().abs().max() > 1e-3
        with network.switched_off():
            torch.testing.assert_close(task.read(network, batch)[0], before)


def test_training_from_results_alone_fits_the_results(task):
    torch.manual_seed(0)
    network = task.network()
    batch = ProblemBatch(make_problems(4, 0))
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-2)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = task.losses(task.read(network, batch), batch).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3


def test_labels_of_every_step_are_another_loss(task):
    problems = make_problems(2, 0)
    labelled = WordsTask(WordsConfig(supervision="calculation"))
    rows = [program.calculations(program.numbers_in(p.text)) for p in problems]
    uniform = (torch.full((2, max(map(len, rows))), 0.0).log_softmax(1),)
    batch = ProblemBatch(problems)
    assert torch.all(labelled.losses(uniform, batch) >= task.losses(uniform, batch))
    assert torch.any(labelled.losses(uniform, batch) > task.losses(uniform, batch))


def test_figures_beside_the_trained_model(task):
    network = task.network()
    more = task.more_results(network, Problems(make_problems(4, 0, held_out=True)))
    assert set(more) == {"accuracy_before_training", "accuracy_of_the_model_alone"}
    assert all(0 <= value <= 1 for value in more.values())


def test_looking_at_it(task, tmp_path):
    pytest.importorskip("matplotlib")
    problems = make_problems(6, 0)
    batch, outputs = ProblemBatch(problems), perfect(problems)
    task.draw(outputs, task.answers(outputs, batch), batch, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 1000
    given = task.given(["Ann has 7 pears and eats 2. How many are left?"])
    with torch.no_grad():
        lines = task.describe(task.read(task.network(), given), given)
    assert lines[0] == "read:" and "result:" in lines
    with pytest.raises(dl.DolphinError, match="at least two numbers"):
        task.given(["Ann has 7 pears."])
    with pytest.raises(dl.DolphinError, match="one problem"):
        task.given([])


def test_answers_are_read_tolerantly():
    assert model.last_number("3 + 4 = 7.") == 7
    with pytest.raises(LookupError):
        model.last_number("I don't know")


def test_the_model_is_not_saved():
    language = tiny_language()
    adapted = AdaptedModel(language.model, blocks=2, rank=2)
    assert sum(p.numel() for p in adapted.parameters()) < 5_000
