"""RESCAL and TuckER: scores as their papers write them, with a matrix for every query."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quatgraph.layers.bilinear_decoder import RESCAL, TuckER
from quatgraph.layers.tables import Tables
from quatgraph.training.ensemble import Ensemble

E, R, WIDTH, NARROW = 7, 3, 6, 4
HEAD, RELATION = torch.tensor([0, 5, 5, 2, 6]), torch.tensor([2, 0, 4, 1, 4])
KINDS = {
    "rescal": lambda **others: RESCAL(R, WIDTH, **others),
    "tucker": lambda **others: TuckER(R, WIDTH, relation_width=NARROW, **others),
}
every_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)


@pytest.fixture
def entities() -> Tensor:
    return torch.randn(E, WIDTH, dtype=torch.float64, requires_grad=True)


def matrix_by_loops(decoder: RESCAL, relation: int) -> Tensor:
    """The matrix of a relation, number by number."""
    if isinstance(decoder, TuckER):
        core = decoder.core.view(NARROW, WIDTH, WIDTH)
        return sum(decoder.relations[relation, k] * core[k] for k in range(NARROW))
    return decoder.relations[relation].view(WIDTH, WIDTH)


@every_kind
def test_a_score_is_the_papers(build, entities):
    decoder = build(norm=False).double()
    query, candidates = decoder(entities, HEAD, RELATION)
    scores = query @ candidates.mT
    for row, (head, relation) in enumerate(zip(HEAD.tolist(), RELATION.tolist(), strict=True)):
        matrix = matrix_by_loops(decoder, relation)
        for tail in range(E):
            expected = entities[head] @ matrix @ entities[tail]
            torch.testing.assert_close(scores[row, tail], expected)


@every_kind
def test_gradients_are_those_of_a_matrix_for_every_query(build, entities):
    decoder = build(norm=False).double()
    parameters = [entities, *decoder.parameters()]
    matrices = torch.stack([matrix_by_loops(decoder, r) for r in RELATION.tolist()])
    expected = (entities[HEAD, None] @ matrices)[:, 0] @ entities.mT
    query, candidates = decoder(entities, HEAD, RELATION)
    slope = torch.randn_like(expected)
    found, wanted = (
        torch.autograd.grad(scores, parameters, slope)
        for scores in (query @ candidates.mT, expected)
    )
    torch.testing.assert_close(found, wanted)


@every_kind
def test_without_matrices_of_their_own_inverse_relations_have_transposed_ones(build, entities):
    decoder = build(norm=False, reciprocal=False).double()
    assert len(decoder.relations) == R
    forth, back = (
        decoder(entities, torch.arange(E), torch.full((E,), relation)) for relation in (1, 1 + R)
    )
    torch.testing.assert_close(forth[0] @ forth[1].mT, (back[0] @ back[1].mT).T)


@every_kind
def test_a_permutation_of_the_entities_permutes_scores(build, entities):
    decoder = build(norm=True).double()
    order = torch.randperm(E)
    query, _ = decoder(entities, HEAD, RELATION)
    permuted, candidates = decoder(entities[order], order.argsort()[HEAD], RELATION)
    torch.testing.assert_close(permuted, query)
    assert torch.equal(candidates, entities[order])


def test_heads_and_queries_of_tucker_are_normalized(entities):
    decoder = TuckER(R, WIDTH).double()
    for norm in (decoder.input_norm, decoder.norm):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)

    def normalized(x: Tensor, norm: nn.Module) -> Tensor:
        return F.batch_norm(x, None, None, norm.weight, norm.bias, training=True)

    matrices = (decoder.relations @ decoder.core)[RELATION].view(-1, WIDTH, WIDTH)
    heads = normalized(entities[HEAD], decoder.input_norm)
    expected = normalized((heads[:, None] @ matrices)[:, 0], decoder.norm)
    torch.testing.assert_close(decoder(entities, HEAD, RELATION)[0], expected)


def test_a_relations_matrix_is_dropped_alike_for_all_its_queries():
    decoder = RESCAL(1, WIDTH, tables=Tables("uniform", 1.0, relation_dropout=0.5))
    heads = torch.arange(2 * WIDTH) % WIDTH
    query, _ = decoder(torch.eye(WIDTH), heads, torch.zeros_like(heads))
    own = decoder.relations[0].view(WIDTH, WIDTH)
    assert torch.equal(query[:WIDTH], query[WIDTH:])
    dropped = query[:WIDTH] == 0
    assert dropped.any()
    torch.testing.assert_close(query[:WIDTH], torch.where(dropped, 0, 2 * own))


def test_the_core_starts_uniformly_or_normally():
    uniform, normal = (
        TuckER(R, 40, core_init=init).core.detach() for init in ("uniform", "normal")
    )
    assert 0.99 < uniform.abs().max() <= 1
    assert uniform.std() == pytest.approx(3**-0.5, abs=0.02)
    assert normal.std() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_depend_on_the_members_seed_and_the_step(kind):
    tables = Tables(entity_dropout=0.2, relation_dropout=0.2)

    def run(seeds: list[int]) -> list[Tensor]:
        ensemble = Ensemble([lambda: KINDS[kind](dropout=0.1, tables=tables)] * 2, seeds)
        vectors = torch.linspace(-1, 1, E * WIDTH).view(E, WIDTH)
        with torch.no_grad():
            return [torch.cat(ensemble(vectors, HEAD, RELATION), dim=1) for _ in range(2)]

    first, again, other = run([3, 4]), run([3, 4]), run([5, 4])
    assert torch.equal(torch.stack(first), torch.stack(again))
    assert not torch.equal(*first)
    torch.testing.assert_close(first[0][1], other[0][1])
    assert not torch.allclose(first[0][0], other[0][0])


def test_pykeens_interactions_give_the_same_scores(entities):
    modules = pytest.importorskip("pykeen.nn.modules")
    rescal = RESCAL(R, WIDTH).double()
    query, candidates = rescal(entities, HEAD, RELATION)
    matrices = rescal.relations[RELATION].view(-1, 1, WIDTH, WIDTH)
    expected = modules.RESCALInteraction()(entities[HEAD, None], matrices, entities[None])
    torch.testing.assert_close(query @ candidates.mT, expected)

    tucker = TuckER(R, WIDTH, relation_width=NARROW).double().eval()
    theirs = modules.TuckERInteraction(
        embedding_dim=WIDTH,
        relation_dim=NARROW,
        head_dropout=0,
        relation_dropout=0,
        head_relation_dropout=0,
        apply_batch_normalization=True,
    )
    theirs = theirs.double().eval()
    with torch.no_grad():
        # Their core has the relation in the middle.
        core = tucker.core.view(NARROW, WIDTH, WIDTH)
        theirs.core_tensor.copy_(core.transpose(0, 1))
        norms = [(theirs.head_batch_norm, tucker.input_norm)]
        for their_norm, our_norm in [*norms, (theirs.head_relation_batch_norm, tucker.norm)]:
            for value in our_norm.state_dict().values():
                value.uniform_(0.5, 1.5)
            their_norm.load_state_dict(our_norm.state_dict(), strict=False)
    query, candidates = tucker(entities, HEAD, RELATION)
    expected = theirs(entities[HEAD, None], tucker.relations[RELATION, None], entities[None])
    torch.testing.assert_close(query @ candidates.mT, expected)
