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
# a9a: 32,561 people of the 1994 census, 123 binary traits, and whether they earn more than 50,000 dollars a year. It
# ships with sparrow as the file that the LIBSVM site publishes.

# %%
import csv
from pathlib import Path

import numpy as np

import sparrow as sp

source = sp.datasets.path("a9a")
census = sp.ingest.libsvm(source, "a9a.sparrow", if_exists="open")
X, y = census["X"], census["y"]
X

# %%
X[:2000].spy(bins=123)

# %% [markdown]
# ## Names
#
# A second file names the columns. Set as labels, the names stay with the tensor.

# %%
with open(Path(source).parent / "features.csv", newline="") as file:
    traits = [f"{row['attribute']}: {row['value']}" for row in csv.DictReader(file)]
X.set_labels("col", traits)
X[0].to_polars(labels=True)["col"].to_list()

# %%
X.sel(col=["sex: Female", "education: Doctorate"])[:8].to_numpy()

# %% [markdown]
# ## SQL
#
# Both members of the bundle are tables. Which traits with at least 500 people go with a high income?

# %%
sp.sql("""
    select col as trait, count(*) as people, round(avg((y.value > 0)::int), 3) as share
    from X join y using (row)
    group by col having count(*) >= 500 order by share desc limit 5
""")

# %% [markdown]
# ## Products
#
# The same as a product: the share of people with a high income, for all traits at once.

# %%
rich = (y > 0).to_numpy().astype(float)
share = (X.T @ rich) / X.count(axis="row").to_numpy()
best = np.argsort(-share)[:3]
[(traits[k], float(share[k].round(3))) for k in best]

# %% [markdown]
# Co-occurrence of traits is a product of the matrix with itself, sparse and lazy: only the requested row is computed.

# %%
together = X.T @ X.rename(col="with")
together.sel(col="education: Doctorate").topk(4)
