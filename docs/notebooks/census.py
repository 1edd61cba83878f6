# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A libsvm set, sliced, queried and multiplied
#
# a9a: 32,561 people of the 1994 census, 123 traits that they have or not, and whether they earn more than 50,000 a
# year. It comes with sparrow, as the file that the LIBSVM site publishes.

# %%
import csv
import tempfile
from pathlib import Path

import numpy as np

import sparrow as sp

home = Path(tempfile.mkdtemp())
source = sp.datasets.path("a9a")
census = sp.ingest.libsvm(source, home / "a9a.sparrow", if_exists="open")
X, y = census["X"], census["y"]
X

# %%
X[:2000].spy(bins=123)

# %% [markdown]
# ## Names
#
# The columns are traits, whose names are in a file beside. As labels they are kept with the tensor.

# %%
with open(Path(source).parent / "features.csv", newline="") as file:
    traits = [f"{row['attribute']}: {row['value']}" for row in csv.DictReader(file)]
X.set_labels("col", traits)
X[0].to_polars(labels=True)["col"].to_list()

# %%
X.sel(col=["sex: Female", "education: Doctorate"])[:8].to_numpy()

# %% [markdown]
# ## Questions
#
# Both members of the bundle are tables. Which traits go with a high income, of those that at least 500 people have?

# %%
sp.sql("""
    select col as trait, count(*) as people, round(avg((y.value > 0)::int), 3) as share
    from X join y using (row)
    group by col having count(*) >= 500 order by share desc limit 5
""")

# %% [markdown]
# ## Products
#
# The same by a product: how many of the people with a trait earn more, for all traits at once.

# %%
rich = (y > 0).to_numpy().astype(float)
share = (X.T @ rich) / X.count(axis="row").to_numpy()
best = np.argsort(-share)[:3]
[(traits[k], float(share[k].round(3))) for k in best]

# %% [markdown]
# Which traits come together is a product of the set with itself, sparse and lazy: it is computed for the row that is
# asked for.

# %%
together = X.T @ X.rename(col="with")
together.sel(col="education: Doctorate").to_polars(labels=True).sort("value", descending=True).head(4)
