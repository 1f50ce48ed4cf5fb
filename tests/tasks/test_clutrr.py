"""CLUTRR: program, encoders, and whole runs."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

pytest.importorskip("rich")
pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import dolphin as dl
from clutrr_cases import batch_of, make_task, perfect, told, write_csv
from dolphin_tasks.cli import main
from dolphin_tasks.clutrr import encoders, kinship, model, program, stories
from dolphin_tasks.clutrr.data import Story, StoryBatch
from dolphin_tasks.clutrr.kinship import COMPOSITIONS, RELATIONS, UNKNOWN
from dolphin_tasks.clutrr.stories import Told
from dolphin_tasks.fetch import DataError
from dolphin_tasks.training import plots
from dolphin_tasks.training.config import OptionError

PROVENANCES = [
    ("noisy-or", None),
    ("damp", None),
    ("viterbi", None),
    ("dtkp-am", 1),
    ("dtkp-am", 3),
    ("dtkp-wmc", 3),
    ("min-max", None),
]
pytestmark = pytest.mark.usefixtures("alone", "few_stories")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """The folder of an encoder like MiniLM, with random weights: no download."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "alex", "sa", "##m", "'", "s", "aunt"]
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    numbers = {word: number for number, word in enumerate(words)}
    transformers.BertTokenizer(vocab=numbers).save_pretrained(folder)
    return str(folder)


@pytest.fixture(params=["scratch", "pretrained"])
def encoder(request):
    """A name for `--encoder`."""
    return request.param if request.param == "scratch" else request.getfixturevalue("pretrained")


# -- the program -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "k"), PROVENANCES)
def test_perfect_perception_gives_perfect_answers(name, k):
    task = make_task(provenance=name, k=k, train_chains=4, loss="bce")
    batch = batch_of(2, 3, 4, 2, 4, 3)
    outputs = (perfect(batch),)
    assert task.answers(outputs, batch) == batch.answers
    assert task.losses(outputs, batch).max() < 1e-3
    read, true = task.perceived(outputs, batch)
    assert torch.equal(read, true)


def test_long_chains_are_derived_to_the_end():
    batch = batch_of(2, 3, 6, 10)
    task = make_task()
    assert task.answers((perfect(batch),), batch) == batch.answers


@pytest.mark.parametrize(("name", "k"), PROVENANCES)
def test_every_mention_on_the_way_gets_a_gradient(name, k):
    task = make_task(provenance=name, k=k, train_chains=4)
    batch = batch_of(2, 3, 4)
    way = chain_of(batch)
    logits = 0.1 * perfect(batch) + 0.01 * torch.randn(len(batch.rows), model.CLASSES)
    logits.requires_grad_()
    losses = task.losses((logits,), batch)
    assert losses.shape == (3,)
    losses.sum().backward()
    assert logits.grad.isfinite().all()
    got = logits.grad.abs().sum(1) > 0
    assert got[way].all() if name != "min-max" else got[way].any()
    after = task.losses(((logits - 0.01 * logits.grad).detach(),), batch)
    assert after.sum() < losses.sum()


def test_what_several_mentions_say_can_be_unlearnt():
    """Sums of probabilities are cut off at 1, where nothing pulls them down again."""
    text = "[Ann] met her son [Bob]. [Ann] saw [Bob]. [Ann] called [Bob]."
    batch = StoryBatch.of([Story.of(Told(text, ("Ann", "Bob"), "son"))])
    asked = (batch.pairs == torch.tensor([0, 1])).all(1)
    assert asked.sum() == 3
    wrong, right = RELATIONS.index("uncle"), RELATIONS.index("son")
    pulls = {}
    for options in ({}, {"provenance": "damp"}):
        logits = torch.zeros(len(batch.rows), model.CLASSES)
        logits[asked, wrong] = 3.0  # a probability of one half, three times
        logits.requires_grad_()
        make_task(**options).losses((logits,), batch).sum().backward()
        assert logits.grad is not None
        pulls[options.get("provenance")] = logits.grad[asked]
    assert (pulls[None][:, wrong] > 0.1).all()  # down
    assert (pulls[None][:, right] < 0).all()
    assert (pulls["damp"][:, wrong] < pulls[None][:, wrong] / 2).all()


def test_every_weight_gets_a_gradient(encoder):
    task = make_task(encoder=encoder, tune=True)
    batch = batch_of(2, 3, 3, 4, 4, 4)
    network = task.network()
    task.losses(task.read(network, batch), batch).sum().backward()
    unread = {"encoder.model.pooler.dense.weight", "encoder.model.pooler.dense.bias"}
    for name, weights in network.named_parameters():
        if name not in unread:
            assert weights.grad is not None and weights.grad.isfinite().all(), name
            assert weights.grad.abs().sum() > 0 or "key.bias" in name, name


def derive(logits, batch, provenance=program.LIKELIEST, links=None):
    """Probabilities (B, 20) of the relations asked for."""
    with dl.using(provenance):
        told = program.told_facts(logits.softmax(1)[:, : len(RELATIONS)], batch)
    return dl.get_probs(program.relation_asked_for(told, links), symbols=RELATIONS)


@pytest.mark.parametrize(
    ("provenance", "links"), [(dl.DAMP(), 3), (program.LIKELIEST, None), (dl.TopKProofs(k=1), None)]
)
def test_a_batch_is_its_stories_one_by_one(provenance, links):
    """Different people, graphs and lengths in one batch."""
    batch = batch_of(3, 2, 4)
    logits = torch.randn(len(batch.rows), model.CLASSES)
    together = derive(logits, batch, provenance, links)
    for row, story in enumerate(batch.stories):
        alone = derive(logits[batch.rows == row], StoryBatch.of([story]), provenance, links)
        assert torch.allclose(together[row], alone[0], rtol=1e-4)


def test_each_derivation_counts_once_where_probabilities_add_up(float64):
    """A chain of two: the sum over all pairs of relations that the table composes."""
    batch = batch_of(2)
    logits = torch.randn(len(batch.rows), model.CLASSES)
    logits[~chain_of(batch), : len(RELATIONS)] = -1e9  # nothing but the chain itself
    first, second = logits.softmax(1)[chain_of(batch)]
    expected = dict.fromkeys(RELATIONS, 0.0)
    for (one, other), whole in COMPOSITIONS.items():
        expected[whole] += float(first[RELATIONS.index(one)] * second[RELATIONS.index(other)])
    found = derive(logits, batch, dl.DAMP(), links=2)[0]
    assert found.tolist() == pytest.approx(list(expected.values()))


def chain_of(batch):
    """(mentions,), True for those that the listed relations are about."""
    return torch.tensor(
        [
            any((f.whose, f.who) == tuple(pair) for f in batch.stories[row].facts())
            for row, pair in zip(batch.rows.tolist(), batch.pairs.tolist(), strict=True)
        ]
    )


def test_the_likeliest_derivation_is_found():
    """Against all assignments of relations to a chain of three, by brute force."""
    batch = batch_of(3)
    logits = 2 * torch.randn(len(batch.rows), model.CLASSES)
    probs = logits.softmax(1)
    found = derive(logits, batch)[0]
    chain = [batch.pairs.tolist().index([f.whose, f.who]) for f in batch.stories[0].facts()]
    expected = dict.fromkeys(RELATIONS, 0.0)
    likely = [[(r, float(probs[m, i])) for i, r in enumerate(RELATIONS)] for m in chain]
    for first, p in likely[0]:
        for second, q in likely[1]:
            for third, s in likely[2]:
                for left in (True, False):
                    one = (first, second) if left else (second, third)
                    inner = COMPOSITIONS.get(one)
                    pair = (inner, third) if left else (first, inner)
                    whole = COMPOSITIONS.get(pair)
                    if whole is not None:
                        expected[whole] = max(expected[whole], p * q * s)
    # Walks that turn back use more facts: they may add a little where the chain gives next to none.
    for relation, value in zip(RELATIONS, found.tolist(), strict=True):
        assert value >= expected[relation] * (1 - 1e-4)
    best = max(expected, key=expected.__getitem__)
    assert found.max().item() == pytest.approx(expected[best], rel=1e-4)


def test_two_mentions_of_a_pair_are_two_chances():
    text = "[Ann] saw her son [Bob]. Then it was night. [Ann] and [Bob] slept."
    batch = StoryBatch.of([Story.of(Told(text, ("Ann", "Bob"), "son"))])
    assert sorted(batch.repeats.tolist()) == [0, 0, 1, 1]
    logits = torch.zeros(4, model.CLASSES)
    logits[
        (batch.pairs == torch.tensor([0, 1])).all(1) & (batch.repeats == 1), RELATIONS.index("son")
    ] = 9
    assert make_task().answers((logits,), batch) == ["son"]
    assert derive(logits, batch)[0].max() > 0.9


@pytest.mark.parametrize(
    "text",
    [
        "[Ann] called her son [Bob]. [Eve] met her sister [Zoe].",
        "[Ann] slept all day.",
        "Nobody is named.",
        "",
    ],
)
def test_no_way_from_one_to_the_other_is_unknown(text):
    """Also in a batch with a story that has one, and with a gradient for that one only."""
    task = make_task()
    lost = Story.of(Told(text, ("Ann", "Zoe"), "aunt"))
    network = task.network()
    for batch in (StoryBatch.of([lost]), StoryBatch.of([lost, Story.of(told(2)[0])])):
        outputs = task.read(network, batch)
        assert task.answers(outputs, batch)[0] == UNKNOWN
        losses = task.losses(outputs, batch)
        assert losses.isfinite().all()
        if len(batch.stories) == 2:
            assert task.answers(outputs, batch)[1] in RELATIONS
            losses.sum().backward()


# -- encoders --------------------------------------------------------------------------------------


def test_padding_and_company_change_nothing(encoder):
    network = model.RelationReader(encoders.make_encoder(encoder)).eval()
    short, long = "[0] is [1]'s son.", "[0] " + "walked and " * 9 + "met [1], his old uncle."
    where, slots = torch.tensor([0, 1, 1, 0]), torch.tensor([[0, 1], [0, 1], [1, 0], [1, 0]])
    both = network([short, long], where, slots, torch.tensor([3, 2, 1, 0]))
    alone = network([short], where[[0, 3]], slots[[0, 3]], torch.tensor([1, 0]))
    assert torch.allclose(both[[0, 3]], alone, atol=1e-4)
    assert not torch.allclose(both[0], both[3], atol=1e-2)


def test_a_relation_is_read_alike_from_both_sides():
    """Whatever is read about the first of two people holds, reversed, for the second."""
    batch = batch_of(2, 3, 4)
    network = make_task().network().eval()
    assert torch.equal(batch.pairs[batch.reverse], batch.pairs.flip(1))
    assert torch.equal(batch.rows[batch.reverse], batch.rows)
    logits = model.read(network, batch)
    there, here = logits[batch.reverse], logits
    women = torch.tensor([kinship.is_female(relation) for relation in RELATIONS])
    for woman in (False, True):
        back = [RELATIONS.index(kinship.inverse(relation, woman)) for relation in RELATIONS]
        for gender in (False, True):
            # Kinds alone: relations to people of one gender, less what that gender adds.
            mine = here[:, :20][:, women == gender]
            theirs = there[:, back][:, women == gender]
            assert torch.allclose(mine - mine[:, :1], theirs - theirs[:, :1], atol=1e-5)
    assert torch.allclose(here[:, 20], there[:, 20], atol=1e-6)


def test_more_passages_than_a_chunk_keep_their_order(monkeypatch):
    network = model.RelationReader(encoders.ScratchEncoder()).eval()
    texts = [f"[0] {'very ' * (7 - n)}much likes [1]." for n in range(7)]
    where, slots = torch.tensor([3, 6, 6, 3]), torch.tensor([[0, 1], [1, 0], [0, 1], [1, 0]])
    reverse = torch.tensor([3, 2, 1, 0])
    whole = network(texts, where, slots, reverse)
    monkeypatch.setattr(model, "CHUNK", 2)
    assert torch.allclose(network(texts, where, slots, reverse), whole, atol=1e-5)


def test_names_are_found_in_pretrained_tokens(pretrained):
    encoder = encoders.make_encoder(pretrained)
    found = encoder(["[1]'s aunt is [0]. [0] is old."]).people[0].tolist()
    assert found.count(0) == 2  # Alex, twice
    assert found.count(1) == 2  # Sam, in two tokens


def test_frozen_encoder_is_remembered_and_not_saved(pretrained):
    network = make_task(encoder=pretrained).network()
    assert not any(name.startswith("encoder") for name in network.state_dict())
    batch = batch_of(3, 3)
    tuned = make_task(encoder=pretrained, tune=True).network()
    tuned.load_state_dict({**tuned.state_dict(), **network.state_dict()})
    first = model.read(network.eval(), batch)
    assert torch.allclose(first, model.read(tuned.eval(), batch), atol=1e-4)
    assert set(network.encoder._known) == set(batch.passages)
    assert torch.equal(first, model.read(network, batch))


@pytest.mark.parametrize("missing", ["transformers", encoders.MINILM_PACKAGE])
def test_missing_packages_are_named(monkeypatch, missing):
    find = encoders.importlib.util.find_spec
    monkeypatch.setattr(
        encoders.importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    assert encoders.default_encoder() == "scratch"
    with pytest.raises(OptionError, match="pip install"):
        encoders.make_encoder("minilm")


def test_an_encoder_that_is_not_there_is_named(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(OptionError, match="can't be loaded"):
        encoders.make_encoder(str(tmp_path))


# -- whole runs ------------------------------------------------------------------------------------


TINY = ["--epochs", "2", "--batch", "16", "--lr", "1e-3", "--device", "cpu", "--encoder", "scratch"]


def test_a_run_from_training_to_prediction(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(stories, "TEST_LENGTHS", range(2, 5))  # longer ones are derived above
    out = tmp_path / "run"
    assert main(["train", "clutrr", *TINY, "--out", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    assert "NOT the real CLUTRR" in results["data"]
    assert 0 < results["symbolic_share"] < 1
    lengths = ["2", "3", "4"]
    assert list(results["accuracy_by_group"]) == lengths
    bound = results["accuracy_with_given_relations"]
    assert bound == {length: {"right": 3, "total": 3} for length in lengths}
    for name in ("groups.png", "samples.png", "confusion.png"):
        assert (out / name).stat().st_size > 1000
    capsys.readouterr()
    story = "[Ann] called her son [Bob]. [Bob] met his sister [Eve]."
    assert main(["predict", str(out), story, "Ann", "Eve", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "answer: Ann's" in shown
    assert "likeliest proof" in shown
    assert (out / "prediction.png").is_file()
    assert main(["predict", str(out), "[Ann] met [Bob]. [Eve] met [Zoe].", "Ann", "Eve"]) == 0
    assert f"answer: {UNKNOWN}" in capsys.readouterr().out
    noisy = [dataclasses.replace(story, noise=3) for story in told(2, 3)]
    write_csv(tmp_path / "3.2_test.csv", noisy)
    assert main(["eval", str(out), "--data-dir", str(tmp_path), "--device", "cpu"]) == 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["[Ann] met [Bob]."], "two names"),
        (["Ann met Bob.", "Ann", "Bob"], "brackets"),
        (["[Ann] met [Bob].", "Ann", "Eve"], "doesn't name 'Eve'"),
        (["[Ann] met [Bob].", "Ann", "Ann"], "two people"),
    ],
)
def test_what_is_wrong_with_a_given_story(inputs, message):
    with pytest.raises((DataError, OptionError), match=message):
        make_task().given(inputs)


def test_a_frozen_run(tmp_path, pretrained, monkeypatch):
    monkeypatch.setattr(plots, "draw_run", lambda *given: None)  # as of the run above
    monkeypatch.setattr(stories, "TEST_LENGTHS", range(2, 4))
    options = [*TINY, "--encoder", pretrained, "--train-samples", "16", "--epochs", "1"]
    options += ["--test-samples", "8"]
    assert main(["train", "clutrr", *options, "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "best.pt").stat().st_size < 10_000_000
