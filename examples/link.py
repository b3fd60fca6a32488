"""Complete a knowledge graph: train on the countries of the world, then ask what is missing."""

import tempfile

import quatgraph
from quatgraph.data.link import load
from quatgraph.models.link import SimQGNN
from quatgraph.tasks.link.config import LinkConfig, TrainConfig

# The built-in sample; a list of (head, relation, tail) or the path of a table does as well.
triples = load("countries")

# Without a config a few settings are tried, which takes longer.
config = LinkConfig(
    model=SimQGNN.Options(dim_quats=16), train=TrainConfig(epochs=30, batch_size=256)
)

with tempfile.TemporaryDirectory() as folder:
    predictor = quatgraph.train_triples(triples, folder + "/model", config=config, device="cpu")
    print(
        {name: round(predictor.card["metrics"][name], 3) for name in ("test/mrr", "test/hits@10")}
    )

    print("Which seas does Turkey lie on? That of `test` was never shown.")
    for row in predictor.predict(head="Turkey", relation="located on", top=4).rows():
        print(f"  {row['tail']} ({row['known'] or 'new'})")

    print("Which country has the capital Canberra, and is it likely that Peru has?")
    for row in predictor.predict(relation="capital", tail="Canberra", top=1).rows():
        print(f"  {row['head']}")
    (row,) = predictor.predict([("Peru", "capital", "Canberra")]).rows()
    print(f"  {row['head_rank'] - 1} others are more likely")
