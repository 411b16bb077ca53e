"""The rules that hold the tree together, which it keeps, and which notice a tree that does not:

- a file includes only its own layer and those below it;
- an include of the project's own is written from the root, in quotes, and its file exists;
- no file includes itself, directly or through others;
- no folder is called util or common, where anything would fit;
- no file is longer than a reader wants to hold in mind, and no folder has more files than he finds his way in;
- a folder of tests of core has its counterpart in core.
"""

import collections
import graphlib
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 800
MAX_FILES = 40

# From the lowest to the highest. Layers of one row do not see each other.
ROWS = [
    "core/base",
    "core/problem",
    "core/attention",
    "core/trace core/reference",
    "core/ring",
    "core/threads",
    # Above threads, the spine is over.
    "core/tools/check core/tools/cost core/processes/supervision",
    "core/processes/mpi core/tools/sim",
    "core/tools/explain core/training",
    "core/tools/foreign",
    "viz/data cuda/emulator",
    "viz/panels cuda/base",
    "viz/window cuda/ptx",
    "viz/browser cuda/kernels",
    "cuda/ring",
    "cuda/nccl",
    "lessons",
    "bench tests",
    "app",
]
ROW_OF = {layer: row for row, layers in enumerate(ROWS) for layer in layers.split()}


def layer_of(path):
    return next((layer for layer in ROW_OF if path.startswith(layer + "/")), None)


def may_see(one, other):
    if {one.split("/")[0], other.split("/")[0]} == {"viz", "cuda"}:
        return False  # they meet in a trace file
    return one == other or ROW_OF[other] < ROW_OF[one]


def includes_of(text):
    """Return the paths that a source text includes, in order, each with the quote or bracket before it."""
    directive = r'^[ \t]*#[ \t]*include[ \t]*(?:(")([^"\n]*)"|(<)([^>\n]*)>)'
    return [(quoted or bracketed, quote or bracket) for quote, quoted, bracket, bracketed in re.findall(directive, text, re.M)]


def complaints_about_include(files, path, included, quote):
    if quote == '"' and included not in files:
        yield f'{path}: includes "{included}", no file of that path from the root'
    if quote == "<" and included in files:
        yield f"{path}: includes <{included}>, a file of ours, in brackets"
    layer, seen = layer_of(path), layer_of(included)
    if included in files and seen and not may_see(layer, seen):
        yield f"{path}: includes {included}, but {layer} does not see {seen}"


def complaints_about_file(files, path):
    for folder in {"util", "utils", "common"}.intersection(path.split("/")[:-1]):
        yield f"{path}: lies in a folder called {folder}"
    lines = files[path].count("\n")
    if lines > MAX_LINES:
        yield f"{path}: is {lines} lines long"
    if layer_of(path) is None:
        yield f"{path}: lies in no layer"
        return
    for included, quote in includes_of(files[path]):
        yield from complaints_about_include(files, path, included, quote)


def complaints_about_folders(files):
    for folder, count in collections.Counter(path.rpartition("/")[0] for path in files).items():
        if count > MAX_FILES:
            yield f"{folder}: holds {count} files"
        of_core = re.match("tests/(core/(?:tools/[^/]+|processes/[^/]+|(?!tools$|processes$)[^/]+))", folder)
        if of_core and not any(path.startswith(of_core[1] + "/") for path in files):
            yield f"{folder}: tests {of_core[1]}/, which is not there"


def complaints_about(files):
    """Return a line for each broken rule, of source texts by their paths from the root; of cycles, the first."""
    complaints = [what for path in files for what in complaints_about_file(files, path)]
    complaints += complaints_about_folders(files)
    graph = {path: [included for included, _ in includes_of(text) if included in files] for path, text in files.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        complaints.append("a file includes itself: " + " > ".join(reversed(error.args[1])))
    return complaints


def is_foreign(folder):
    """Return whether a folder is not the project's: build trees, recordings and git's own."""
    return folder.name.startswith(".") or folder.name in ("build", "runs") or (folder / "CMakeCache.txt").exists()


def read_tree():
    files = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not is_foreign(Path(folder, name))]
        for path in (Path(folder, name) for name in names):
            if path.suffix in (".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh"):
                files[path.relative_to(ROOT).as_posix()] = path.read_text("utf-8")
    return files


FILES = read_tree()


def test_the_tree_keeps_the_rules():
    assert "core/ring/ring.h" in FILES and "tests/app/program.h" in FILES, f"the walk found only {len(FILES)} files"
    assert complaints_about(FILES) == []


@pytest.mark.parametrize(
    "known_by, those_who_may",
    [
        # A scheme. What core/trace tells apart lies below the schemes.
        (
            r'"(allgather|ulysses|pass-q|two-level|hybrid|mesh|multi-ring|groupcast|bidirectional)[":]|scheme_table\.h',
            r"core/ring/.*|core/trace/scheme_names\.h",
        ),
        # A mask. Which masks a wrong result may have come from is a list of guesses.
        (
            r'"(window|sink|prefix)[":]|\b(mask|piece|spec)\.(window|sink)',
            r"core/problem/.*|core/tools/check/.*hypotheses\.cpp",
        ),
        # A deal: a closed form's sample, the order of preference among equals, guesses, and pictures of one of them.
        (
            r"PartitionKind::(striped|fold)",
            r"core/problem/partition\.(h|cpp)|core/tools/cost/(balance|choices)\.cpp|core/tools/check/hypotheses\.cpp"
            r"|viz/data/mask/mask_painter\.cpp",
        ),
        # A panel.
        (r"draw_(softmax|compare|what_if|selection_table)\(", r"viz/panels/.*|viz/window/workspace\.cpp"),
        # A kernel.
        (r"(shared|register)_tiles_kernel", r"cuda/kernels/.*"),
    ],
)
def test_what_is_added_is_told_to_few(known_by, those_who_may):
    """Whoever names one of a kind would have to be told of the next one. CONTRIBUTING says what adding one takes; these
    are all who may know it."""
    knowing = [path for path, text in FILES.items() if re.match("(app|core|cuda|viz)/", path) and re.search(known_by, text)]
    assert knowing
    assert [path for path in knowing if not re.fullmatch(those_who_may, path)] == []


def test_the_spine_stands_alone():
    """What a reader of ring attention has to know can be read without the tools, the processes and the training."""
    beyond = re.compile("core/(tools|processes|training)/")
    spine = [path for path in FILES if path.startswith("core/") and not beyond.match(path)]
    assert len(spine) > 60
    assert [path for path in spine if any(beyond.match(included) for included, _ in includes_of(FILES[path]))] == []


# The viewer for browsers gets some parts of core (viz/browser/CMakeLists.txt).
OF_BROWSERS = tuple(
    f"core/{part}/"
    for part in "attention base problem ring trace tools/cost tools/explain tools/foreign tools/sim".split()
)


def test_what_browsers_get_needs_nothing_else():
    # Nobody measures there.
    there = [path for path in FILES if path.startswith(OF_BROWSERS) and path != "core/tools/cost/measure.cpp"]
    assert len(there) > 100
    for path in there:
        assert "std::ranges::" not in FILES[path], f"{path}: the compiler for browsers lacks them; see core/base/ranges.h"
        for included, _ in includes_of(FILES[path]):
            assert not included.startswith("core/") or included.startswith(OF_BROWSERS), f"{path} includes {included}"


def test_what_fuzzers_get_needs_nothing_else():
    """They link the readers alone, with whatever of core is in headers."""
    folders = re.findall(r"PROJECT_SOURCE_DIR\}/([\w/]+/)\*\.cpp", (ROOT / "tests/fuzz/CMakeLists.txt").read_text())
    assert len(folders) == 3
    there = [path for path in FILES if os.path.dirname(path) + "/" in folders]
    assert len(there) > 40
    for path in there:
        for included, _ in includes_of(FILES[path]):
            compiled = included.removesuffix(".h") + ".cpp"
            assert compiled not in FILES or compiled in there, f"{path} includes {included}"


def test_files_that_are_compiled_as_one_share_no_names():
    """Their types and constants have names of their own."""
    homes = {}
    for path, text in FILES.items():
        if not path.endswith(".cpp") or not path.startswith((*OF_BROWSERS, "viz/")):
            continue
        part = "/".join(path.split("/")[:2]) if path.startswith("viz/") else "core"
        names = re.findall(r"^(?:class|struct) (\w+)[^;\n]*$", text, re.M)
        for line in re.findall("^constexpr .*", text, re.M):
            names += re.findall(r"\b(k[A-Z]\w*)[\[\]]* =", line)
        for name in names:
            assert homes.setdefault((part, name), path) == path, f"{path} has a {name} too"
    assert len(homes) > 300


def test_includes_are_read():
    text = """// #include "commented"
#include "core/base/math.h"\r
  #  include<vector>
#include "unfinished
#define X 1
#include MACRO
#include <last>"""
    assert includes_of(text) == [("core/base/math.h", '"'), ("vector", "<"), ("last", "<")]


def complaints_of(tree):
    """Return the complaints about files, of which each has its includes as they are written, quotes and all."""
    return complaints_about({path: "".join(f"#include {each}\n" for each in tree[path]) for path in tree})


def expect_one_complaint(tree, what):
    """The files alone must be flawless, so that the complaint can only be about what was added to them."""
    (complaint,) = complaints_of(tree)
    assert what in complaint


def including(one, other):
    """Return files of two layers, of which one includes the other."""
    return {other + "/other.h": [], one + "/x.cpp": [f'"{other}/other.h"']}


@pytest.mark.parametrize(
    "low, high",
    [
        ("core/base", "core/problem"),
        ("core/ring", "core/tools/cost"),
        ("core/training", "core/tools/foreign"),
        ("viz/data", "viz/panels"),
        ("cuda/ptx", "cuda/ring"),
        ("core/tools/foreign", "viz/data"),
        ("bench", "app"),
    ],
)
def test_a_layer_does_not_see_what_is_above_it(low, high):
    assert complaints_of(including(high, low)) == []
    expect_one_complaint(including(low, high), f"{low} does not see {high}")


@pytest.mark.parametrize(
    "one, other",
    [("core/trace", "core/reference"), ("core/processes/mpi", "core/tools/sim"), ("viz/window", "cuda/base")],
)
def test_layers_of_one_row_and_viz_and_cuda_do_not_see_each_other(one, other):
    expect_one_complaint(including(one, other), f"{one} does not see {other}")
    expect_one_complaint(including(other, one), f"{other} does not see {one}")


def test_includes_are_written_from_the_root():
    def shape_with(*includes):
        return {"core/base/math.h": [], "core/problem/shape.h": includes}

    for wrong in ('"math.h"', '"../base/math.h"', '"base/math.h"', '"core/base/gone.h"'):
        expect_one_complaint(shape_with(wrong), "no file of that path")
    expect_one_complaint(shape_with("<core/base/math.h>"), "in brackets")
    assert complaints_of(shape_with('"core/base/math.h"', "<vector>")) == []


@pytest.mark.parametrize(
    "path, complaint",
    [
        *((path, "lies in no layer") for path in ("main.cpp", "core/loose.h", "core/other/a.h", "helpers/a.h")),
        *((path, "lies in no layer") for path in ("corely/base/a.h", "viz/a.h", "viz/other/a.h", "cuda/a.h")),
        ("core/base/util/a.h", "lies in a folder called util"),
        ("viz/data/utils/b/a.h", "lies in a folder called utils"),
        ("tests/common/a.h", "lies in a folder called common"),
        ("tests/core/tools/sim/a_test.cpp", "tests core/tools/sim/"),
        ("tests/core/ring/a_test.cpp", "tests core/ring/"),
    ],
)
def test_files_lie_where_they_belong(path, complaint):
    expect_one_complaint({path: []}, complaint)


def test_names_that_are_only_like_bad_ones_are_good():
    assert complaints_of({"viz/data/common.h": [], "viz/data/utility/a.h": []}) == []
    paths = ("core/base/a.h", "tests/core/base/a_test.cpp", "tests/core/base/driver/a.cpp", "tests/core/tools/a.h")
    assert complaints_of({path: [] for path in paths}) == []


def test_folders_and_files_have_bounds():
    folder = {f"core/base/{i}.h": [] for i in range(MAX_FILES)}
    assert complaints_of(folder) == []
    expect_one_complaint({**folder, "core/base/last.h": []}, "holds 41 files")
    assert complaints_about({"viz/data/a.cpp": MAX_LINES * "\n"}) == []
    (complaint,) = complaints_about({"viz/data/a.cpp": (MAX_LINES + 1) * "\n"})
    assert "801 lines long" in complaint


def test_cycles_are_found():
    a, b, c = ("viz/data/a.h", "viz/data/b.h", "viz/data/c.h")
    expect_one_complaint({a: [f'"{a}"']}, f"{a} > {a}")
    expect_one_complaint({a: [f'"{b}"'], b: [f'"{c}"'], c: [f'"{a}"']}, f"{b} > {c}")
    # Two ways to the same file are no cycle.
    assert complaints_of({a: [f'"{b}"', f'"{c}"'], b: [f'"{c}"'], c: []}) == []


def test_paths_in_the_sources_exist():
    """A program that reads a file which has moved may fail only where few look: in a sanitizer's preset."""
    found = 0
    for path, text in FILES.items():
        for named in re.findall(r'RINGSCOPE_SOURCE_DIR\)*[\s+/]*"/?([\w./-]+)', text):
            assert named.startswith("build/") or (ROOT / named).exists(), f"{path} names {named}"
            found += 1
    assert found >= 20


OF_TESTS = {path: text for path, text in FILES.items() if path.startswith("tests/")}


def bounds_a_time(text):
    return re.search(r"_L[ET]\([^;]{0,400}(\btook\b|elapsed|steady_clock|_since\(|chrono)", text)


def test_no_test_knows_the_clock():
    """What else a machine does must not matter: nothing is expected to have taken at most so long."""
    assert bounds_a_time("EXPECT_LE(took.count(), 3);")
    assert bounds_a_time("EXPECT_LT(steady_clock::now() - begin,\n seconds(3));")
    assert not bounds_a_time("EXPECT_LE(a, 3); took.count();")
    assert [path for path, text in OF_TESTS.items() if bounds_a_time(text)] == []


def shares_a_file(text):
    names = re.findall(r"(?:TempDir\(\) \+|temp_directory_path\(\) /)[^;]*", text)
    return any("getpid()" not in name and "XXXXXX" not in name for name in names)


def test_no_test_shares_a_file():
    """Two runs of the tests at the same time must not write the same files: a name in the folder for temporary files has
    the number of its process, or is drawn."""
    assert shares_a_file('path = TempDir() + "a.json"; ::getpid();')
    assert not shares_a_file('path = TempDir() +\n "a" + std::to_string(::getpid());')
    assert [path for path, text in OF_TESTS.items() if shares_a_file(text)] == []


def test_mutants_stand_where_their_table_says():
    """tests/mutation/mutants.tsv names its mutants' places by file and line, and the test that killed each. Whoever changes
    such a line takes the mutant along to where its code went, or out of the table with its code."""
    lines = {path: collections.Counter(line.lstrip(" \t") for line in text.split("\n")) for path, text in FILES.items()}
    tests = {pair for text in OF_TESTS.values() for pair in re.findall(r"\((\w+),\s*(\w+)[,)]", text)}
    mutants = 0
    for row in (ROOT / "tests/mutation/mutants.tsv").read_text("utf-8").splitlines():
        if row.startswith(("#", "id\t")):
            continue
        number, path, nth, line, column, replaced, _, _, killer = row.split("\t")
        assert lines[path][line] > int(nth), f"{number}: {path}: {line}"
        there = line[int(column) :]  # a statement may go on below
        assert there.startswith(replaced) or replaced.startswith(there), f"{number}: {replaced}"
        folder, _, name = killer.partition(".")
        if named := re.search(r"Claims\.(C\d+)_(\w+)|(\w+)\.(\w+)", name):
            assert tuple(filter(None, named.groups())) in tests, f"{number}: {killer}"
        elif name:
            assert (ROOT / f"tests/{folder}/test_{name}.py").is_file(), f"{number}: {killer}"
        mutants += 1
    assert mutants > 50


def test_the_half_hour_list_is_true():
    """CONTRIBUTING.md says how long it takes to read ring attention; so it is told the truth about."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    listed = {path: int(lines) for path, lines in re.findall(r"^\| \[([\w/.]+)\]\(\1\) \| (\d+) \|", page, re.M)}
    assert listed == {path: FILES[path].count("\n") for path in listed}
    assert len(listed) == 6 and sum(listed.values()) <= 700
