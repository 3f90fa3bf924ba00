"""From a reference run to the estimator that starts where it started: one function a method.

Each yields pairs of a suffix and an unfitted hasher; the suffix tells which of the file's variants it is to reproduce.
"""

import numpy as np

from hashlearn import AGH, CH, ITQ, JPSH, JSH, LSH, OCH, OEH, RSSH, SGH, SH, SP

SOLVER_TOL = 1e-9


def lsh(o):
    yield "", LSH(o.n_bits, center=False, init=o["init_projection"])
    yield "_centered", LSH(o.n_bits, center=True, init=o["init_projection"])


def itq(o):
    for suffix in ("", "_centered"):
        if f"init_rotation{suffix}" in o:
            start = {"init": o[f"init_rotation{suffix}"], "directions": o[f"pca_axes{suffix}"]}
            yield suffix, ITQ(o.n_bits, center=bool(suffix), max_iter=o.params["iterations"], **start)


def jsh(o):
    p = o.params
    yield (
        "",
        JSH(
            o.n_bits,
            n_neighbors=p["k"],
            lambda3=p["alpha"],
            max_iter=p["T"],
            solver={"epsilon": p["eps_Q"]},
            bias=p["bias"],
            normalize_graph=p["normalize_graph"],
            rescale=False,
            anchors=o["anchors"],
            init=o["init_codes"],
        ),
    )


def jpsh(o):
    p = o.params
    penalties = {name: p[name] for name in ("lambda1", "lambda2", "lambda3")}
    yield (
        "",
        JPSH(
            o.n_bits,
            n_neighbors=p["k"],
            n_anchor_neighbors=p["psi"],
            **penalties,
            max_iter=p["T"],
            max_imbalance=None,
            bias=p["bias"],
            normalize_graph=p["normalize_graph"],
            rescale=False,
            anchors=o["anchors"],
            init=o["init_codes"],
            soft_offsets=1,
            pairwise_weight=1.0,
            solver={"epsilon": p["epsilon"], "graph_ridge": p["graph_ridge"], "solver_tol": SOLVER_TOL},
        ),
    )


def sh(o):
    yield "", SH(o.n_bits)


def sp(o):
    p = o.params
    for suffix in ("", "_centered"):
        yield (
            suffix,
            SP(
                o.n_bits,
                beta=p["beta"],
                sparsity=p["sparsity"],
                max_iter=p["iterations"],
                center=bool(suffix),
                rescale=False,
                init=o["init_projection"].T,
            ),
        )


def sgh(o):
    p = o.params
    yield (
        "",
        SGH(
            o.n_bits,
            rho=p["rho"],
            gamma=p["gamma"],
            n_sweeps=p["refinement_sweeps"],
            bases=o.X[o["basis_rows"]],
            refine_order=o["refine_order"],
        ),
    )


def agh(o):
    p = o.params
    yield (
        "",
        AGH(
            o.n_bits,
            n_layers=p["layers"],
            n_neighbors=p["s"],
            max_eigenvalue=p["eigenvalue_max"],
            anchors=o["anchors"],
        ),
    )


def ch(o):
    p = o.params
    yield (
        "",
        CH(
            o.n_bits,
            n_clusters=p["K"],
            max_iter=p["itq_iterations"],
            kmeans_max_iter=p["kmeans_rounds"],
            centers=o.X[o["init_center_rows"]],
            directions=list(o["pca_axes"]),
            init=list(o["init_rotations"]),
        ),
    )


def rssh(o):
    p = o.params
    yield (
        "",
        RSSH(
            o.n_bits,
            rank=p["r"],
            beta=p["beta"],
            lambda1=p["lam"],
            eta=p["eta"],
            sigma=p["kernel_sigma"],
            max_iter=p["outer_iterations"],
            factor_max_iter=p["factor_iterations"],
            init_V=o["init_V"],
            init_G=o["init_G"],
            anchors=o.X[o["kernel_anchor_rows"]],
        ),
    )


def ordinal_start(o):
    """The state both ordinal methods start from; landmarks are stored as seen from the subset's mean."""
    return {
        "k": o.params["k"],
        "max_iter": o.params["max_iter"],
        "n_components": o.params["dimD"],
        "subset": o["subset"],
        "landmarks": o["landmarks"] + o["subset_mean"],
        "directions": o["pca_axes"],
        "init": o["init_projection"],
    }


def oeh(o):
    p = o.params
    settings = {"lambda1": p["lamda"], "beta": p["beta"], "step": p["alpha"], "as_released": not p["corrected"]}
    yield "", OEH(o.n_bits, **settings, **ordinal_start(o))


def och(o):
    yield "", OCH(o.n_bits, as_released=True, **ordinal_start(o))


BUILDERS = {
    "LSH": lsh,
    "SH": sh,
    "ITQ": itq,
    "SP": sp,
    "SGH": sgh,
    "AGH": agh,
    "AGH2": agh,
    "OEH": oeh,
    "OCH": och,
    "CH": ch,
    "RSSH": rssh,
    "JSH": jsh,
    "JPSH": jpsh,
}


def free_signs(o):
    """The bits whose eigenvector may point either way, which complements the whole column."""
    if o.method == "AGH2":
        return np.arange(o.n_bits) < o.n_bits // 2
    return np.full(o.n_bits, o.method in ("SH", "SGH", "AGH"))
