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
# # Ratings: from CSV to recommendations
#
# Ratings of films as they come out of a database, one line each, become a tensor that one slices by name, queries in
# SQL and fits a model to. The data is drawn here: people of four tastes, films of four kinds.

# %%
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import sparrow as sp

home = Path(tempfile.mkdtemp())
rng = np.random.default_rng(7)
kinds = ["western", "musical", "horror", "space opera"]
titles = [f"{kind} {number:02}" for kind in kinds for number in range(1, 41)]

users, films = 600, len(titles)
taste = rng.integers(0, len(kinds), users)
known = np.exp(-(np.arange(films) % 40) / 12)  # of each kind some are seen by many, most by few
chance = known * np.where(taste[:, None] == np.arange(films) // 40, 0.9, 0.12)
seen_by, seen = np.nonzero(rng.random((users, films)) < chance)
liked = taste[seen_by] == seen // 40
stars = np.clip(np.round(rng.normal(np.where(liked, 4.2, 2.6), 0.8) * 2) / 2, 0.5, 5)

ratings_csv = pl.DataFrame({"user": [f"u{k:03}" for k in seen_by], "film": [titles[k] for k in seen], "stars": stars})
ratings_csv.write_csv(home / "ratings.csv")
ratings_csv.head(3)

# %% [markdown]
# ## In
#
# Texts become the labels of their dimension. A second run of this cell opens what the first one stored.

# %%
ratings = sp.ingest.columns(
    home / "ratings.csv", home / "ratings.sparrow", coords=["user", "film"], value="stars", if_exists="open"
)
ratings

# %%
ratings.spy(bins=100)

# %% [markdown]
# The films are sorted by title, so those of a kind are a band. One user's ratings are a row, found by name:

# %%
ratings.sel(user="u005").to_polars(labels=True).sort("value", descending=True).head(5)

# %% [markdown]
# ## Questions
#
# In SQL a labelled dimension is a column of names.

# %%
sp.sql("""
    select film, count(*) as ratings, round(avg(value), 2) as stars
    from ratings group by film having count(*) >= 20 order by stars desc, film limit 5
""")

# %% [markdown]
# Absent cells are not ratings of 0: `where="stored"` means over what is there.

# %%
means = ratings.mean(axis="user", where="stored")
means.sel(film=["horror 01", "musical 01"]).to_numpy().round(2)

# %% [markdown]
# ## A model
#
# Who did not see a film had the choice of 160: absent entries say something, so they weigh as much as others
# (`unobserved_weight=1`; docs/choosing-als.md tells when they should not). Some rows are left out of training, and
# what popularity alone would recommend to them is written beside.

# %%
parts = sp.models.evaluation.split(ratings, seed=0)
model = sp.models.ALS(factors=8, unobserved_weight=1, epochs=8).fit(parts.train)
sp.models.evaluation.evaluate(model, parts.test, recall=[10], ndcg=[20])

# %%
model = sp.models.ALS(factors=8, unobserved_weight=1, epochs=8).fit(ratings)
best, scores = model.recommend(["u005", "u006"], k=5)
pl.DataFrame({"u005": best[0].tolist(), "u006": best[1].tolist()})

# %%
model.similar(["space opera 01"], k=4)[0][0].tolist()

# %% [markdown]
# ## Tomorrow
#
# New ratings come with a user whom nobody knew. They are appended by name, in one commit; and the model has an answer
# at once, folding her in.

# %%
ratings.append(pl.DataFrame({"film": ["western 01", "western 02"], "user": ["new", "new"], "value": [5.0, 4.5]}))
history = ratings.sel(user=["new"])
[commit["operation"] for commit in ratings.history()], model.recommend(history, k=3, labels=True)[0][0].tolist()
