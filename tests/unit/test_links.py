"""The link check finds every outward link, asks again when it should, and knows gone from refused."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import links
import nbformat
import pytest

ANSWERS = {
    "/good": [200],
    "/moved": [302],  # to /good
    "/gone": [404],
    "/busy-at-first": [503, 429, 200],
    "/broken": [500, 500, 500, 500],
    "/for-people": [403, 403, 403, 403],
}


@pytest.fixture
def site():
    """A local site's address, and how often each of its pages was asked for."""
    asked = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answers = ANSWERS[self.path]
            self.send_response(answers[min(asked[self.path], len(answers) - 1)])
            asked[self.path] += 1
            if self.path == "/moved":
                self.send_header("Location", "/good")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("page", "kind", "times"),
    [
        ("/good", links.GOOD, 1),
        ("/moved", links.GOOD, 1),
        ("/gone", links.GONE, 1),
        ("/busy-at-first", links.GOOD, 3),
        ("/broken", links.GONE, 4),
        ("/for-people", links.REFUSES, 4),
    ],
)
def test_what_a_page_answers(site, page, kind, times):
    address, asked = site
    assert links.check(address + page, pause=0)[0] == kind
    assert asked[page] == times


def test_a_host_that_does_not_answer_is_gone():
    assert links.check("http://127.0.0.1:9/nobody", tries=2, pause=0)[0] == links.GONE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](https://a.org/x) and <https://b.org>.", {"https://a.org/x", "https://b.org"}),
        ("See https://a.org/x, or (https://a.org/y).", {"https://a.org/x", "https://a.org/y"}),
        (
            "[w](https://en.wikipedia.org/wiki/Z_(a))",
            {"https://en.wikipedia.org/wiki/Z_(a)"},
        ),
        (
            "[![b](https://a.org/b.svg)](https://a.org/c)",
            {"https://a.org/b.svg", "https://a.org/c"},
        ),
        ("[one](https://a.org/x#part)", {"https://a.org/x"}),
        ("http://localhost:8000 and https://github.com/NAME/BOOK", set()),
        ("`pip install --index-url https://a.org/whl/cpu`", {"https://a.org/whl/cpu"}),
    ],
)
def test_links_in_a_text(text, expected):
    assert links.links_in(text) == expected


def test_every_kind_of_file_is_read(tmp_path):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "README.md").write_text("https://a.org/readme\n")
    (tmp_path / "chapters/page.md").write_text("https://a.org/page https://a.org/readme\n")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("[c](https://a.org/cell)"),
            nbformat.v4.new_code_cell('url = "https://a.org/code"'),
        ]
    )
    nbformat.write(notebook, tmp_path / "chapters/one.ipynb")
    (tmp_path / "references.bib").write_text(
        "@article{x,\n  doi = {10.1/x(2)},\n  eprint = {1706.03762},\n}\n"
    )
    assert links.collect(tmp_path) == {
        "https://a.org/readme": ["README.md", "chapters/page.md"],
        "https://a.org/page": ["chapters/page.md"],
        "https://a.org/cell": ["chapters/one.ipynb"],
        "https://doi.org/10.1/x(2)": ["references.bib"],
        "https://arxiv.org/abs/1706.03762": ["references.bib"],
    }


def test_the_report_names_link_and_place(capsys):
    places = {"https://a.org/x": ["README.md"], "https://a.org/y": ["index.md", "README.md"]}
    assert links.report(places, [(links.GOOD, "200"), (links.GONE, "404")]) == 1
    shown = capsys.readouterr().out
    assert "gone (404): https://a.org/y" in shown
    assert "in index.md, README.md" in shown
    assert "https://a.org/x" not in shown
