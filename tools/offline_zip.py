"""Pack the built book for reading from disk: ``python tools/offline_zip.py SITE BOOK.zip``.

The same site gives the same bytes: files are sorted and carry no time, owner or permissions of
this machine.
"""

import argparse
import zipfile
from pathlib import Path

LEFT_OUT = {".buildinfo", "objects.inv"}  # for Sphinx alone
README = """\
Unpack this folder and open index.html in a browser. Everything works from disk, with no network.
To run the chapters, see "How to read it" there.
"""


def pack(site: Path, target: Path) -> int:
    """Pack all files of the folder `site` into `target`; returns how many.

    They lie in one folder that is named as the file is.

    Raises:
        FileNotFoundError: the book has not been built.
    """
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"there is no built book in {site}")
    files = {
        path.relative_to(site).as_posix(): path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and path.name not in LEFT_OUT
    }
    files["README.txt"] = README.encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{target.stem}/{name}")  # its time is 1980-01-01
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return len(files)


def main() -> None:
    """Pack the book and say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    print(f"{arguments.target}: {pack(arguments.site, arguments.target)} files")


if __name__ == "__main__":
    main()
