"""The printed catalogue of causes: current, whole, and with a recipe that works."""

import re
from pathlib import Path

from reveal_core.attribute.causes import load_causes
from reveal_core.attribute.document import render_causes

PAGE = Path(__file__).parents[2] / "docs/causes.md"


def test_the_printed_causes_are_current():
    page = PAGE.read_text(encoding="utf-8")
    assert page == render_causes(), "run: python -m reveal_core.attribute.document docs/causes.md"


def test_every_cause_has_its_section_with_what_to_do():
    page = render_causes()
    for cause in load_causes():
        section = page.partition(f'<a id="{cause.id}"></a>')[2].partition("<a id=")[0]
        assert f"### {cause.title}\n" in section
        assert cause.commands[0] in section
        assert f"*Source*: {cause.source}" in section
        assert "*What to do*" in section
    links = set(re.findall(r"\(#([a-z0-9-]+)\)", page))
    assert links == {cause.id for cause in load_causes()}


def test_the_recipe_is_an_entry(tmp_path):
    (recipe,) = re.findall(r"```toml\n(.*?)```", render_causes(), re.DOTALL)
    (tmp_path / "mine.toml").write_text(recipe, encoding="utf-8")
    assert load_causes(tmp_path)[-1].id == "scratch-disk-full"
