#!/bin/sh
# Installs the build of torch that plain pip finds (options for `pip download` may follow), if its hash is in constraints.txt.
# With hashes on its command line pip prefers PyPI's build, which needs 3 GB more, to a CPU build of a folder or an index
# without hashes.  So the file is fetched first, and then it is the only one that pip may take.
set -eu
pip=${PIP:-pip}
case $pip in */*) pip=$(cd "$(dirname "$pip")" && pwd)/$(basename "$pip") ;; esac
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' constraints.txt)
sed -n '/^torch==/,/^[^ ]/p' constraints.txt | sed -n '1p; /^    --hash/p' > "$folder/torch.txt"
"$pip" download --quiet --disable-pip-version-check --no-deps --dest "$folder" "$@" "torch==$version"
"$pip" install --quiet --disable-pip-version-check --no-deps --no-index --find-links "$folder" --require-hashes \
    --requirement "$folder/torch.txt" || {
    echo "install_torch.sh: $(basename "$folder"/torch-*) is not a build whose hash is in constraints.txt;" \
        "TORCH_INDEX_URL=https://pypi.org/simple takes that of PyPI" >&2
    exit 1
}
