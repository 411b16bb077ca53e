#!/usr/bin/env python3
"""Draw mutants at random, and record which of them the tests kill.

A mutant is one small mistake: an operator, a bound, a constant, or a wait that is left out. All of them are compiled into
one tree, each behind a switch (mutant.h), so that one build serves them all:

  mutants.py draw  --seed S --count N        write mutants.tsv anew, from the sources as they are; with --only REGEX, add
                                             to it mutants of the files that match
  mutants.py apply TREE                      put all of mutants.tsv into the sources of TREE (a worktree; never your own)
  mutants.py reach TREE BUILD                run every test once, to learn which mutants each one reaches
  mutants.py kill  BUILD                     run each mutant's tests until one fails; write the verdicts to mutants.tsv

`draw` keeps a mutant only if a compiler takes it. After a file has moved or changed, `apply` looks for each mutant's line
by its text, in its own file first and then in the tree, and lists those that it does not find: put them where their code
went, by hand, in mutants.tsv. A test in tests/structure fails until that is done. A test is left out when it fails without any mutant. A mutant survives when no test that
reaches it fails within BUDGET_S seconds of running tests: the one that killed it the last time first, then the shortest.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, random, re, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLE = HERE / "mutants.tsv"
FIELDS = ["id", "file", "nth", "line", "column", "from", "to", "verdict", "by"]
FOLDERS = ["app", "core", "cuda/kernels", "viz/data", "viz/panels"]
KINDS = ["relation", "arithmetic", "logic", "constant", "wait"]
WEIGHTS = [30, 25, 10, 20, 15]
BUDGET_S = 60

RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
LOGIC = {"&&": "||", "||": "&&"}
CONSTANTS = {"0": "1", "1": "2", "2": "3"}
WAIT = re.compile(r"^ *(?:[\w:.>\[\]-]+[.>:])?\w*(?:wait|notify|arrive|sync|fence|barrier|commit)\w*(?:<\w+>)?\([^;{}]*\);$", re.M)


def code_only(text):
    """The text with comments, strings and preprocessor lines blanked, at the same length."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                  blank, text, flags=re.S | re.M)


def sites(text):
    """Yield (kind, start, end, replacement) for every place that a mutant could be made."""
    code = code_only(text)
    for m in re.finditer(r"(?<= )(<=|>=|==|!=|<|>|\+|-|\*|/|%|&&|\|\|)(?= )", code):
        for kind, table in (("relation", RELATIONS), ("arithmetic", ARITHMETIC), ("logic", LOGIC)):
            if m.group() in table:
                yield kind, m.start(), m.end(), table[m.group()]
    for m in re.finditer(r"(?<![\w.'])[012](?![\w.'])", code):
        yield "constant", m.start(), m.end(), CONSTANTS[m.group()]
    for m in WAIT.finditer(code):
        if text[m.start():m.end()] == m.group() and "return" not in m.group():
            begin = m.start() + len(m.group()) - len(m.group().lstrip())
            yield "wait", begin, m.end(), ""


def expression_around(code, start, end):
    """The bounds of the whole expression around an operator: between brackets, commas, semicolons, =, ? and :."""
    depth, left = 0, start
    while left > 0:
        c = code[left - 1]
        if c in ")]}":
            depth += 1
        elif c in "([{":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0:
            if c in ",;?" or (c == ":" and code[left - 2] != ":" and code[left] != ":"):
                break
            if c == "=" and code[left - 2] not in "<>=!" and code[left] != "=":
                break
            if re.search(r"\breturn $", code[max(0, left - 8):left]):
                break
        left -= 1
    depth, right = 0, end
    while right < len(code):
        c = code[right]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (c in ",;?" or (c == ":" and code[right - 1] != ":" and code[right + 1] != ":")):
            break
        right += 1
    while code[left].isspace():
        left += 1
    while code[right - 1].isspace():
        right -= 1
    return left, right


def rewritten(text, ident, start, end, to, otherwise=None):
    """(bounds of what is replaced, what replaces it), for one mutant; `otherwise` holds the others of the same expression."""
    switch = f"::ringscope::mutation::mutant({ident})"
    if to == "":
        return start, end, f"if (!{switch}) {{ {text[start:end]} }}"
    left, right = expression_around(code_only(text), start, end)
    changed = text[left:start] + to + text[end:right]
    return left, right, f"({switch} ? ({changed}) : ({otherwise or text[left:right]}))"


def with_switch(text):
    return '#include "tests/mutation/mutant.h"\n' + text


def place_of(text, start):
    """(which of the lines of the same text it is in, the line without its margins, the column in it)."""
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", start)
    raw = text[begin:stop if stop >= 0 else len(text)]
    line = raw.strip()
    same = [l for l in text[:begin].split("\n") if l.strip() == line]
    return len(same), line, start - begin - (len(raw) - len(raw.lstrip()))


def find(text, nth, line, column):
    """The offset that place_of() described, or None."""
    offset, seen = 0, 0
    for raw in text.split("\n"):
        if raw.strip() == line:
            if seen == nth:
                return offset + len(raw) - len(raw.lstrip()) + column
            seen += 1
        offset += len(raw) + 1
    return None


def sources(root):
    listed = subprocess.run(["git", "ls-files", *FOLDERS], cwd=root, text=True, capture_output=True, check=True).stdout.split()
    return [f for f in listed if f.endswith((".h", ".cpp", ".cu"))]


def compiles(root, file, text):
    flags = ["-std=c++20", "-fsyntax-only", "-w", "-march=native", "-I" + str(root), "-isystem", "/usr/include/eigen3", "-isystem",
             "/usr/include/imgui", "-x", "c++"]
    if file.startswith("cuda/"):
        flags += ["-DRINGSCOPE_MODEL=1", "-I" + str(root / "cuda/emulator/include")]
    if "mpi" in file:
        flags += ["-isystem", "/usr/lib/x86_64-linux-gnu/openmpi/include"]
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as changed:
        changed.write(with_switch(text).replace("#pragma once", ""))
        changed.flush()
        return subprocess.run(["g++", *flags, changed.name], capture_output=True).returncode == 0


def read_table():
    rows = [line.rstrip("\n").split("\t") for line in TABLE.read_text().split("\n") if line and not line.startswith("#")]
    return [dict(zip(FIELDS, row)) for row in rows[1:]]


def write_table(rows, head):
    with open(TABLE, "w") as out:
        out.write("".join(f"# {line}\n" for line in head) + "\t".join(FIELDS) + "\n")
        for row in rows:
            out.write("\t".join(str(row[f]) for f in FIELDS) + "\n")


def head_lines():
    return [line[2:] for line in TABLE.read_text().split("\n") if line.startswith("# ")]


def draw(args):
    rng = random.Random(args.seed)
    by_kind = collections.defaultdict(list)
    texts = {f: (ROOT / f).read_text() for f in sources(ROOT) if re.search(args.only, f)}
    kept = read_table() if args.only else []
    first = 1 + max((int(row["id"]) for row in kept), default=-1)
    for file, text in texts.items():
        for kind, start, end, to in sites(text):
            by_kind[kind].append((file, start, end, to))
    candidates = []
    while len(candidates) < 2 * args.count:
        site = rng.choice(by_kind[rng.choices(KINDS, WEIGHTS)[0]])
        if site not in candidates:
            candidates.append(site)

    def judged(site):
        file, start, end, to = site
        left, right, new = rewritten(texts[file], 0, start, end, to)
        if right - left > 400:
            return False
        return compiles(ROOT, file, texts[file][:left] + new + texts[file][right:])

    rows, taken = [], collections.defaultdict(list)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for site, good in zip(candidates, pool.map(judged, candidates)):
            file, start, end, to = site
            left, right, _ = rewritten(texts[file], 0, start, end, to)
            if not good or len(rows) == args.count or any(l < right and left < r for l, r in taken[file]):
                continue
            taken[file].append((left, right))
            nth, line, column = place_of(texts[file], start)
            rows.append(dict(id=first + len(rows), file=file, nth=nth, line=line, column=column, to=to or "(left out)", verdict="-", by="-",
                             **{"from": texts[file][start:end].replace("\n", " ")}))
    drawn = f"Drawn by mutants.py with seed {args.seed}."
    write_table(kept + rows, head_lines() + [f"From {first} on: {drawn[0].lower()}{drawn[1:-1]}, from {args.only}."] if args.only else [drawn])
    print(f"{len(rows)} mutants of {sum(map(len, by_kind.values()))} places in {len(texts)} files")


def apply(args):
    tree = pathlib.Path(args.tree).resolve()
    if tree == ROOT:
        sys.exit("mutants.py: apply: not to your own tree; make a worktree")
    texts = {f: (tree / f).read_text() for f in sources(tree)}
    edits, lost, count = collections.defaultdict(dict), [], 0
    for row in read_table():
        nth, column, size = int(row["nth"]), int(row["column"]), len(row["from"])
        homes = [row["file"]] if row["file"] in texts and find(texts[row["file"]], nth, row["line"], column) is not None else []
        if not homes:
            homes, nth = [f for f, t in texts.items() if find(t, 0, row["line"], column) is not None], 0
        if len(homes) != 1:
            lost.append(f"{row['id']}: {len(homes)} places: {row['file']}: {row['line']}")
            continue
        text = texts[homes[0]]
        start = find(text, nth, row["line"], column)
        if text[start:start + size].replace("\n", " ") != row["from"]:
            lost.append(f"{row['id']}: not as it was: {row['from']}")
            continue
        to = "" if row["to"] == "(left out)" else row["to"]
        changes, count = edits[homes[0]], count + 1
        bounds = rewritten(text, row["id"], start, start + size, to)[:2]
        changes[bounds] = rewritten(text, row["id"], start, start + size, to, changes.get(bounds))[2]
    for file, changes in edits.items():
        text = texts[file]
        for (left, right), new in sorted(changes.items(), reverse=True):
            text = text[:left] + new + text[right:]
        (tree / file).write_text(with_switch(text))
    print(f"{count} mutants are in {tree}")
    if lost:
        sys.exit("not found, or not uniquely:\n" + "\n".join(lost))


def run(test, environment, limit):
    """(whether it passed, seconds)."""
    begin = time.monotonic()
    try:
        process = subprocess.Popen(test["command"], cwd=test["folder"], env={**os.environ, **test["set"], **environment},
                                   start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        good = process.wait(limit) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        good = False
    return good, time.monotonic() - begin


def reach(args):
    listed = json.loads(subprocess.run(["ctest", "--test-dir", args.build, "--show-only=json-v1"], capture_output=True, check=True).stdout)
    tests = []
    for test in listed["tests"]:
        if "command" not in test:  # of a program that was not built
            continue
        says = {p["name"]: p["value"] for p in test["properties"]}
        settings = dict(setting.split("=", 1) for setting in says.get("ENVIRONMENT", []))
        tests.append(dict(name=test["name"], command=test["command"], folder=says.get("WORKING_DIRECTORY", args.build), set=settings))

    def visit(test):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(4096))
            file.flush()
            test["good"], test["seconds"] = run(test, {"RINGSCOPE_REACHED": file.name}, 300)
            test["reached"] = [i for i, b in enumerate(pathlib.Path(file.name).read_bytes()) if b]

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(visit, tests))
    (pathlib.Path(args.build) / "reached.json").write_text(json.dumps(tests))
    print(f"{len(tests)} tests; failing without a mutant: {[t['name'] for t in tests if not t['good']]}")


def kill(args):
    tests = [t for t in json.loads((pathlib.Path(args.build) / "reached.json").read_text()) if t["good"]]
    rows = read_table()

    def judge(row):
        spent = 0
        reaching = sorted((t for t in tests if int(row["id"]) in t["reached"]), key=lambda t: (t["name"] != row["by"], t["seconds"]))
        row["verdict"], row["by"] = "survived", "-"
        if not reaching:
            row["verdict"] = "not reached"
        for test in reaching:
            good, seconds = run(test, {"RINGSCOPE_MUTANT": row["id"]}, 120 + 10 * test["seconds"])  # of a busy machine, too
            spent += seconds
            if not good:
                row["verdict"], row["by"] = "killed", test["name"]
                break
            if spent > BUDGET_S:
                break
        print(row["id"], row["verdict"], row["by"], f"{spent:.0f} s", flush=True)
        return row

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        judged = [row for row in rows if int(row["id"]) >= args.first]
        for _ in pool.map(judge, judged):
            write_table(rows, head_lines())  # so that nothing is lost when this is cut off
    counts = collections.Counter(row["verdict"] for row in judged)
    write_table(rows, (head_lines() if args.first else head_lines()[:1]) + [f"{counts['killed']} killed, {counts['survived']} survived, {counts['not reached']} not reached by a test ({args.note})."])
    print(dict(counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--count", type=int, required=True)
    drawing.add_argument("--only", default="")
    drawing.set_defaults(do=draw)
    applying = commands.add_parser("apply")
    applying.add_argument("tree")
    applying.set_defaults(do=apply)
    reaching = commands.add_parser("reach")
    reaching.add_argument("build")
    reaching.set_defaults(do=reach)
    killing = commands.add_parser("kill")
    killing.add_argument("build")
    killing.add_argument("--from", dest="first", type=int, default=0, help="the first id; verdicts before it stay")
    killing.add_argument("--note", default="")
    killing.set_defaults(do=kill)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
