#!/bin/sh
# Runs the kernels' tests and one search on aarch64, emulated on another Linux machine.
#
#     benchmarks/arm.sh [FOLDER] [PYTEST ARGUMENTS]
#
# FOLDER (about 1 GB, made where it is missing) gets three things: qemu-user and an arm64 Python from Debian's
# packages, unpacked and not installed, and arm64 wheels from PyPI. No rights of an administrator are needed.
# What runs is emulated instruction by instruction: results are those of the instructions, times mean nothing. It takes
# an hour or more: kernels are compiled by an emulated compiler. They are kept in FOLDER; run the script again to go on.
# The processor is a Neoverse N1. With CPU=max, qemu 7.2 gives NumPy's own products of matrices wrong (its SVE).
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
place=${1:-"${TMPDIR:-/tmp}/hashlearn-arm64"}
[ $# -gt 0 ] && shift
mkdir -p "$place"
place=$(cd "$place" && pwd)

if [ ! -e "$place/qemu/usr/bin/qemu-aarch64-static" ]; then
    mkdir -p "$place/debs"
    (cd "$place/debs" && apt-get download -q qemu-user-static)
    dpkg-deb -x "$place"/debs/qemu-user-static_*.deb "$place/qemu"
fi

if [ ! -e "$place/arm64/usr/bin/python3" ]; then
    state="$place/apt"
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : > "$state/status"
    arm64() {
        apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
            -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
            -o Debug::NoLocking=true "$@"
    }
    arm64 update
    arm64 install --download-only --no-install-recommends python3 libstdc++6 libgomp1
    mkdir -p "$place/arm64"
    for package in "$state"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$place/arm64"
    done
fi

version=$(basename "$(readlink -f "$place/arm64/usr/bin/python3")")
version=${version#python}
if [ ! -e "$place/site/numba" ]; then
    python3 - "$here/pyproject.toml" > "$place/requirements.txt" <<'PYTHON'
import sys
import tomllib

project = tomllib.load(open(sys.argv[1], "rb"))["project"]
tests = ["pytest", "pytest-asyncio", "pytest-timeout", "hypothesis"]  # some start processes that import the server
print("\n".join([*project["dependencies"], *project["optional-dependencies"]["server"], *tests]))
PYTHON
    python3 -m pip install -q --target "$place/site" --only-binary=:all: --python-version "$version" \
        --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 -r "$place/requirements.txt"
    echo "$place/site" > "$place/arm64/usr/lib/python3/dist-packages/site.pth"  # tests set PYTHONPATH themselves
fi

# Processes that Python starts are emulated too: this script is what Python takes itself for (-0).
python="$place/arm64/usr/bin/emulated-python"
cat > "$python" <<SCRIPT
#!/bin/sh
exec "$place/qemu/usr/bin/qemu-aarch64-static" -cpu "${CPU:-neoverse-n1}" -0 "$python" "$place/arm64/usr/bin/python3" "\$@"
SCRIPT
chmod +x "$python"
export PYTHONPATH="$here/src" PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR="$place/compiled"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 QEMU_LD_PREFIX="$place/arm64"

cd "$here"
"$python" - <<'PYTHON'
import platform

import numpy as np

from hashlearn import ABH, ITQ, SimilaritySearch
from hashlearn.search import nearest_vectors

assert platform.machine() == "aarch64", platform.machine()
rng = np.random.default_rng(0)
X = rng.standard_normal((1500, 16)).astype(np.float32)
Q = rng.standard_normal((20, 16)).astype(np.float32)
truth = nearest_vectors(X, Q, 10).ids
itq, abh = ITQ(n_bits=16, random_state=0), ABH(n_bits=32, random_state=0)
for hasher, keep in ((itq, "float32"), (itq, "int8"), (abh, "float16")):
    search = SimilaritySearch(hasher, keep_vectors=keep, index="lists").fit(X).add(X)
    found = search.search(Q, 10, recall=1.0).ids
    same = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), truth.tolist())])
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(search.search(Q, 10).ids.tolist(), truth.tolist())])
    print(f"{platform.machine()}, {type(hasher).__name__}, {keep}: exact {same:.3f}, by lists {recall:.3f}", flush=True)
    assert same >= (0.95 if keep == "int8" else 0.99), same
PYTHON
[ $# -gt 0 ] || set -- tests/codes tests/index/kernels
"$python" -m pytest -q -p no:cacheprovider -rs "$@"
