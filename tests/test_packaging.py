"""What users install is complete, small and named as the code is; workflows and Dockerfiles say what they should."""

import os
import re
import subprocess
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pluralrm._version import __version__
from tests.house import REPOSITORY, SOURCE

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
DOCKERFILES = sorted((REPOSITORY / "docker").glob("*.Dockerfile"))
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def loaded(path: Path) -> dict[str, Any]:
    """Return a YAML file; its key `on` stays a text, though YAML 1.1 takes it for true."""
    text = re.sub(r"^on:", '"on":', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(yaml.safe_load(text))


def steps(workflow: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


# ---------------------------------------------------------------- metadata


def test_the_citation_is_of_this_version_and_complete() -> None:
    citation = loaded(REPOSITORY / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors", "version"} <= set(citation)
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["repository-code"] == PROJECT["project"]["urls"]["Source"]
    for work in citation["references"]:
        assert {"type", "title", "authors"} <= set(work)


def test_every_python_that_is_named_is_tested() -> None:
    named = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}
    tests = loaded(REPOSITORY / ".github/workflows/tests.yml")
    assert set(tests["jobs"]["tests"]["strategy"]["matrix"]["python"]) == named


def test_links_of_the_readme_lead_to_files_of_the_repository_from_a_packages_page() -> None:
    urls, readme = PROJECT["project"]["urls"], (REPOSITORY / "README.md").read_text(encoding="utf-8")
    raw = urls["Source"].replace("github.com", "raw.githubusercontent.com") + "/main/"
    text = readme
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", text)
    assert len(links) == len(re.findall(r"\]\(", readme)) > 20
    for image, target in links:
        base = raw if image else f"{urls['Source']}/blob/main/"
        assert target.startswith(base), target
        assert (REPOSITORY / target.removeprefix(base).partition("#")[0]).is_file(), target


# ---------------------------------------------------------------- workflows


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_that_exist_with_pinned_actions(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    for step in steps(loaded(path)):
        for command in re.findall(r"^make (.+)$", step.get("run", ""), re.MULTILINE):
            assert set(command.split()) <= targets, command
        if action := step.get("uses"):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
    for line in re.findall(r"uses: .*", path.read_text(encoding="utf-8")):
        assert re.search(r" # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_workflow_holds_a_secret_or_may_write(path: Path) -> None:
    workflow = loaded(path)
    assert "secrets." not in path.read_text(encoding="utf-8")
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for name, job in workflow["jobs"].items():
        rights = job.get("permissions", {})
        assert rights in ({}, {"contents": "read"}, {"id-token": "write"}), name
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            assert "${{" not in step.get("run", ""), "an expression in a command is where injection begins"


def test_only_the_job_that_uploads_may_ask_for_an_identity_and_it_runs_no_code_of_ours() -> None:
    jobs = loaded(REPOSITORY / ".github/workflows/release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["environment"] == "pypi"
    assert not any("run" in step or "checkout" in step["uses"] for step in jobs["publish"]["steps"])
    assert "make test" in [step.get("run") for step in jobs["build"]["steps"]]


# ---------------------------------------------------------------- images


def instructions(path: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_images_have_a_pinned_base_a_plain_user_and_no_key(path: Path) -> None:
    lines = instructions(path)
    bases = [rest.split()[0] for word, rest in lines if word == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert [rest for word, rest in lines if word == "USER"] == ["10001"]
    assert lines.index(("USER", "10001")) < [word for word, _ in lines].index("ENTRYPOINT")
    assert not [rest for word, rest in lines if word in {"ENV", "ARG"} and re.search("KEY|TOKEN|SECRET", rest)]
    assert all(word != "ADD" for word, _ in lines)
    assert "oopback" in path.read_text(encoding="utf-8") or "--network none" in path.read_text(encoding="utf-8")
    (extras,) = [rest.partition("=")[2].split(",") for word, rest in lines if word == "ARG"]
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])


def test_images_are_built_from_named_files_alone() -> None:
    kept = [line for line in (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"]
    copied = {
        source
        for path in DOCKERFILES
        for word, rest in instructions(path)
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert {f"!{source}" for source in copied} == set(kept)


def test_every_dockerfile_is_built_by_make_images() -> None:
    assert re.findall(r"docker build --file (\S+)", MAKEFILE) == [f"docker/{path.name}" for path in DOCKERFILES]


# ---------------------------------------------------------------- wheel and sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both, as `make package` does, with the backend in an environment of its own."""
    folder = tmp_path_factory.mktemp("dist")
    tools = folder / "tools"
    venv.create(tools, with_pip=True)
    python = tools / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "build"], check=True)
    subprocess.run([python, "-m", "build", "--outdir", folder, REPOSITORY], check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}
    ours = {f"pluralrm/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*") if path.is_file()}
    assert packed == {name for name in ours if "__pycache__" not in name}
    assert wheel.stat().st_size < 4_000_000


@pytest.mark.slow
def test_the_page_of_the_wheel_has_no_link_that_leads_nowhere(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("/METADATA")]
        page = file.read(name).decode()
    assert "# pluralrm" in page
    assert not re.search(r"\]\((?!https://)", page)


@pytest.mark.slow
def test_the_sdist_holds_what_it_names_and_no_more(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        tops = {name.split("/")[1] for name in file.getnames()}
    included = {path.strip("/") for path in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    assert tops == included | {"PKG-INFO", "pyproject.toml", ".gitignore"}


@pytest.mark.slow
def test_the_wheel_scores_in_a_fresh_environment(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "fresh", with_pip=True)
    programs = tmp_path / "fresh/bin"
    subprocess.run([programs / "pip", "install", "--quiet", wheel], check=True)
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    score = [str(programs / "pluralrm"), "score", "pocket-prb", "-m", "bm25", "-c", "raw:10", "--controls"]
    result = subprocess.run(score, cwd=tmp_path, env=alone, check=True, capture_output=True, text=True)
    assert "bm25" in result.stdout
    home = [str(programs / "python"), "-c", "import pluralrm; print(pluralrm.__file__)"]
    result = subprocess.run(home, cwd=tmp_path, env=alone, check=True, capture_output=True, text=True)
    assert result.stdout.startswith(str(tmp_path))
