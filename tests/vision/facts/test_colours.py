"""Colours get the names that people use for them."""

import pytest

from imgproc_local.vision.facts.colours import FAMILIES, NAMES, colour_name, colour_shares, lab


@pytest.mark.parametrize(
    ("rgb", "possible_names"),
    [
        ((255, 0, 0), "red"),
        ((0, 255, 0), "green"),
        ((0, 0, 255), "blue"),
        ((255, 255, 0), "yellow"),
        ((0, 255, 255), "turquoise"),
        ((128, 0, 0), "dark_red"),
        ((0, 128, 0), "green dark_green"),
        ((128, 128, 0), "olive"),
        ((128, 0, 128), "purple"),
        ((0, 128, 128), "turquoise"),
        ((255, 165, 0), "orange"),
        ((255, 192, 203), "pink"),
        ((139, 69, 19), "brown"),
        ((210, 180, 140), "beige"),
        ((135, 206, 235), "light_blue"),
        ((255, 215, 0), "yellow"),
        ((34, 139, 34), "green"),
        ((15, 60, 25), "dark_green"),
        ((20, 35, 80), "dark_blue"),
        ((60, 30, 15), "dark_brown"),
        ((150, 220, 150), "light_green"),
        ((0, 0, 0), "black"),
        ((255, 255, 255), "white"),
        ((128, 128, 128), "grey"),
        ((200, 200, 200), "light_grey"),
        ((80, 80, 80), "dark_grey"),
        ((250, 245, 240), "white"),
        ((20, 20, 24), "black"),
    ],
)
def test_well_known_colours_get_their_everyday_name(rgb: tuple[int, int, int], possible_names: str) -> None:
    assert colour_name(rgb) in possible_names.split()


def test_every_name_is_the_name_of_some_colour() -> None:
    steps = range(0, 256, 15)
    names = {colour_name((r, g, b)) for r in steps for g in steps for b in steps}
    assert names == set(NAMES)


def test_families_are_colour_names() -> None:
    assert set(FAMILIES) | set(FAMILIES.values()) <= set(NAMES)
    assert {name for name in NAMES if name.startswith(("dark_", "light_"))} <= set(FAMILIES)


def test_the_names_of_greys_are_ordered_by_lightness() -> None:
    order = ["black", "dark_grey", "grey", "light_grey", "white"]
    ranks = [order.index(colour_name((level, level, level))) for level in range(256)]
    assert ranks == sorted(ranks)
    assert set(ranks) == {0, 1, 2, 3, 4}


def test_lab_of_the_primaries_equals_published_values() -> None:
    assert lab((255, 255, 255)) == pytest.approx((100, 0, 0), abs=0.05)
    assert lab((255, 0, 0)) == pytest.approx((53.24, 80.09, 67.20), abs=0.1)
    assert lab((0, 0, 255)) == pytest.approx((32.30, 79.19, -107.86), abs=0.1)


def test_shares_add_up_and_are_sorted_by_size() -> None:
    shares = colour_shares([(60, (255, 0, 0)), (30, (0, 0, 255)), (10, (250, 0, 10))])
    assert list(shares) == ["red", "blue"]
    assert shares == pytest.approx({"red": 0.7, "blue": 0.3})
