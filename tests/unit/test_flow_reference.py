"""The reference for scopes against SPEC §5–§7, docs/scopes.md, the examples of the REBECA paper, and laws."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from routing.checker import (
    Component,
    Edge,
    Event,
    Grant,
    Outcome,
    Reference,
    Scope,
    Subscription,
    System,
    accepted,
    visible,
)
from routing.checker.content import sameness
from routing.checker.graph import Graph
from routing.checker.system import Content
from routing.filters import matches
from tests.systems import Run, apply_mapping, failing, parse_mapping, random_system, systems

N: Content = {"price": 100, "secret": 7}
F: Content = {"price": 100}
Contents = dict[str, list[Content]]


def build(edges: str | Iterable[Edge], *scopes: Scope, **more: object) -> System:
    """Edges as `child>parent` words; every parent is a scope, every other child subscribes to everything."""
    rows = [Edge(*word.split(">")) for word in edges.split()] if isinstance(edges, str) else list(edges)
    named = {scope.name for scope in scopes}
    parents = {edge.parent for edge in rows} - named - {"world"}
    everyone = {edge.child for edge in rows} - parents - named
    subscriptions = tuple(Subscription(name, "all", "TRUE") for name in sorted(everyone))
    built = System((*scopes, *map(Scope, sorted(parents))), tuple(rows), subscriptions=subscriptions)
    return replace(built, **more)  # type: ignore[arg-type]


def also(system: System, *consumers: str) -> System:
    return replace(system, subscriptions=(*system.subscriptions, *(Subscription(c, "all", "TRUE") for c in consumers)))


def reference() -> Reference:
    return Reference(apply_mapping, parse_mapping)


def publish(system: System, publisher: str, content: Content | None = None, id: str = "e") -> Outcome:
    return reference().batch(system, [Event(publisher, id, N if content is None else content)], 0)


def contents(outcome: Outcome) -> Contents:
    found: Contents = {}
    for notification in outcome.notifications:
        found.setdefault(notification.consumer, []).append(notification.content)
    return found


def receivers(system: System, publisher: str, content: Content | None = None, id: str = "e") -> set[str]:
    return set(contents(publish(system, publisher, content, id)))


def same(found: Contents, expected: Contents) -> bool:
    def sets(some: Contents) -> dict[str, frozenset[object]]:
        return {name: frozenset(map(sameness, values)) for name, values in some.items()}

    return sets(found) == sets(expected) and all(len(some) == len(expected[name]) for name, some in found.items())


class TestVisibility:
    """SPEC §5, Definition 2."""

    SPEC = "C1>S1 C2>S1 C2>S2 C3>S2 S2>S3 C4>S3"

    @pytest.mark.parametrize(
        ("publisher", "others"),
        [("C4", {"C2", "C3"}), ("C2", {"C1", "C3", "C4"}), ("C1", {"C2"}), ("C3", {"C2", "C4"})],
    )
    def test_the_vector(self, publisher: str, others: set[str]) -> None:
        system = build(self.SPEC)
        assert receivers(system, publisher) - {publisher} == others
        assert {name for name in ("C1", "C2", "C3", "C4") if visible(system, publisher, name)} == others | {publisher}

    def test_visibility_is_not_transitive(self) -> None:
        system = build(self.SPEC)
        assert visible(system, "C1", "C2") and visible(system, "C2", "C4") and not visible(system, "C1", "C4")

    def test_figure_3_components_that_share_a_superscope_see_each_other(self) -> None:
        system = build("X>A Y>B A>R B>R Z>C")
        assert visible(system, "X", "Y") and not visible(system, "X", "Z")
        assert receivers(system, "X") == {"X", "Y"}

    def test_one_global_scope_is_the_simple_event_system(self) -> None:
        assert receivers(build("X>G Y>G Z>G"), "X") == {"X", "Y", "Z"}

    def test_a_scope_sees_what_is_in_it(self) -> None:
        assert visible(build("X>S"), "X", "S")

    def test_a_diamond_delivers_once(self) -> None:
        found = publish(build("X>K K>A K>B A>T B>T Y>T"), "X")
        assert [(n.consumer, n.path) for n in found.notifications] == [("X", ("A", "K")), ("Y", ("T",))]

    def test_trace_sigma_4_leaving_and_joining_between_batches(self) -> None:
        together, apart = build("X>S Y>S"), also(build("X>S"), "Y")
        asked, got = reference(), []
        for number, system in enumerate([together, apart, together, apart]):
            outcome = asked.batch(system, [Event("X", str(number), N)], number)
            got += [n.event_id for n in outcome.notifications if n.consumer == "Y"]
        assert got == ["0", "2"]


class TestWorld:
    def test_the_first_scope_created_and_the_last_dropped_change_nothing_for_those_outside(self) -> None:
        nothing = also(System(), "A", "B", "C")
        first = replace(nothing, scopes=(Scope("S"),), edges=(Edge("C", "S"),))
        assert receivers(nothing, "A") == {"A", "B", "C"}
        assert receivers(first, "A") == {"A", "B"} == receivers(first, "A")
        assert receivers(first, "C") == {"C"}
        dropped = replace(first, scopes=())
        assert receivers(dropped, "A") == {"A", "B", "C"}

    def test_an_unknown_publisher_is_in_it(self) -> None:
        assert receivers(also(System(), "A"), "nobody") == {"A"}

    def test_it_shows_in_the_path(self) -> None:
        assert publish(also(System(), "A"), "B").notifications[0].path == ("world",)

    def test_isolated(self) -> None:
        system = replace(also(build("C>S D>S"), "A", "B"), unscoped="isolated")
        assert receivers(system, "A") == {"A"}
        assert receivers(system, "C") == {"C", "D"}
        assert not visible(system, "A", "B")

    def test_isolated_makes_world_a_scope_like_any_other(self) -> None:
        system = replace(also(build("A>world world>T B>T", Scope("world")), "C"), unscoped="isolated")
        assert receivers(system, "A") == {"A", "B"}

    def test_it_is_in_nothing(self) -> None:
        system = also(build("world>T B>T"), "A")
        assert [problem.row for problem in accepted(system)[1]] == [("world", "T")]
        assert receivers(system, "A") == {"A"}

    def test_others_may_join_it(self) -> None:
        system = also(build("X>S S>world"), "A")
        assert receivers(system, "A") == {"A", "X"}

    def test_scopes_without_a_superscope_are_not_in_it(self) -> None:
        assert receivers(also(build("X>S"), "A"), "A") == {"A"}

    def test_it_may_have_a_policy(self) -> None:
        system = replace(also(System(), "A", "B", "C"), scopes=(Scope("world", delivery="one_of_n"),))
        assert len(receivers(system, "P")) == 1


class TestMappings:
    """SPEC §6 and Definition 3."""

    ONE = (Edge("A", "T", down_mapping="via = 'a'"), Edge("B", "T", down_mapping="via = 'b'"))

    def test_vector_1(self) -> None:
        more = [Edge("X", "A"), Edge("X", "B"), Edge("Y", "A"), Edge("Z", "B"), Edge("W", "T")]
        a, b = {**N, "via": "a"}, {**N, "via": "b"}
        assert same(contents(publish(build([*self.ONE, *more]), "X")), {"X": [N], "Y": [N, a], "Z": [N, b], "W": [N]})
        alone = build([*self.ONE, *(edge for edge in more if edge.key != ("X", "B"))])
        assert same(contents(publish(alone, "X")), {"X": [N], "Y": [N], "Z": [b], "W": [N]})

    def test_vector_2_and_several_superscopes_bring_several_versions(self) -> None:
        edges = build("X>K Z>K K>S2 S1>T S2>T P>S1 Q>S2 R>T").edges
        system = build([Edge("K", "S1", up_mapping="DROP secret"), *edges])
        found = contents(publish(system, "X"))
        assert same(found, {"X": [N], "Z": [N, F], "P": [N, F], "Q": [N, F], "R": [N, F]})

    def test_vector_3_a_version_that_came_down_into_k_reaches_only_what_lies_below(self) -> None:
        edges = build("K>S2 X>S1 W>S1 Y>K Z>S2").edges
        system = build([Edge("K", "S1", down_mapping="DROP secret"), *edges])
        assert same(contents(publish(system, "X")), {"X": [N], "W": [N], "Y": [F]})
        assert same(contents(publish(system, "Z")), {"Z": [N], "Y": [N]})
        assert same(contents(publish(system, "Y")), {"Y": [N], "X": [N], "W": [N], "Z": [N]})

    def test_figure_5_up_and_down_are_both_applied_and_the_arriving_version_is_judged(self) -> None:
        edges = [
            Edge("X", "A", up_mapping="u = 1"),
            Edge("A", "T", up_mapping="v = u"),
            Edge("Y", "T", down_mapping="w = v"),
        ]
        system = replace(
            build(edges), subscriptions=(Subscription("Y", "new", "w = 1"), Subscription("Y", "old", "w IS NULL"))
        )
        (notification,) = publish(system, "X").notifications
        assert notification.content == {**N, "u": 1, "v": 1, "w": 1}
        assert notification.subscription_ids == ("new",)

    def test_the_empty_notification_is_a_filter_that_lets_nothing_pass(self) -> None:
        edges = [Edge("X", "K"), Edge("Y", "K"), Edge("K", "S", up_filter="FALSE"), Edge("Z", "S")]
        assert receivers(build(edges), "X") == {"X", "Y"}
        assert receivers(build(edges), "Z") == {"Z", "X", "Y"}

    def test_the_market_lets_out_completed_trades_only(self) -> None:
        market = Scope("market", output_filter="kind = 'trade'", output_mapping="DROP bidder")
        system = build("broker>market dealer>market market>city reader>city", market)
        assert receivers(system, "broker", {"kind": "quote"}) == {"broker", "dealer"}
        found = contents(publish(system, "broker", {"kind": "trade", "bidder": "b"}))
        assert found["dealer"] == [{"kind": "trade", "bidder": "b"}] and found["reader"] == [{"kind": "trade"}]

    def test_representations_inside_and_outside(self) -> None:
        inner = Scope("inner", input_mapping="format = 'binary'", output_mapping="format = 'xml'")
        system = build("X>inner Y>inner inner>outer Z>outer", inner)
        assert contents(publish(system, "Z", {"format": "xml"}))["X"] == [{"format": "binary"}]
        assert contents(publish(system, "X", {"format": "binary"})) == {
            "X": [{"format": "binary"}],
            "Y": [{"format": "binary"}],
            "Z": [{"format": "xml"}],
        }

    def test_an_interface_holds_on_an_edge_that_is_joined_later(self) -> None:
        guarded = Scope("K", output_filter="FALSE", input_filter="FALSE")
        system = build("X>K Y>K K>S Z>S", guarded)
        later = also(replace(system, edges=(*system.edges, Edge("K", "world", created_at=9))), "V")
        for publisher in ("X", "Z", "V"):
            assert not receivers(later, publisher) & {"X", "Y", "Z", "V"} - (
                {"X", "Y"} if publisher == "X" else {publisher}
            )

    def test_interface_before_edge_upwards_and_after_it_downwards(self) -> None:
        edge = Edge("K", "S", up_mapping="b = a", down_mapping="a = 3")
        scope = Scope("K", output_mapping="a = 2", input_mapping="c = a", input_filter="a = 3")
        system = build([edge, Edge("X", "K"), Edge("Z", "S")], scope)
        assert contents(publish(system, "X", {"a": 1}))["Z"] == [{"a": 2, "b": 2}]
        assert contents(publish(system, "Z", {"a": 1}))["X"] == [{"a": 3, "c": 3}]

    def test_a_mapping_that_fails_stops_its_version_only_and_is_recorded_once(self) -> None:
        edges = [
            Edge("X", "A"),
            Edge("A", "T", up_mapping="b = 1 / zero"),
            Edge("Y", "A"),
            Edge("Z", "T"),
            Edge("A", "U"),
            Edge("V", "U"),
        ]
        outcome = publish(build(edges), "X", {"zero": 0})
        assert set(contents(outcome)) == {"X", "Y", "V"}
        assert [(dead.kind, dead.reason) for dead in outcome.dead] == [("mapping", "A up to T: division by zero")]

    def test_an_always_failing_mapping(self) -> None:
        system = build([Edge("X", "A", up_mapping="boom = 1"), Edge("Y", "A")])
        outcome = Reference(failing).batch(system, [Event("X", "e", N)], 0)
        assert set(contents(outcome)) == {"X"} and outcome.dead[0].kind == "mapping"

    def test_equal_contents_are_one_version_with_the_first_path(self) -> None:
        def to_double(text: str, event: Content) -> Content:
            return {**event, "price": float(str(event["price"]))}

        edges = [Edge("X", "K"), Edge("K", "B"), Edge("K", "A", up_mapping="double"), Edge("Y", "A"), Edge("Y", "B")]
        (mine, yours) = Reference(to_double).batch(build(edges), [Event("X", "e", {"price": 100})], 0).notifications
        assert (mine.consumer, yours.consumer, yours.path) == ("X", "Y", ("A",))
        assert isinstance(yours.content["price"], float) and yours.version == 1

    def test_null_is_absent(self) -> None:
        (mine,) = publish(build("X>A"), "X", {"a": 1, "b": None}).notifications
        assert mine.content == {"a": 1}

    @pytest.mark.parametrize(
        ("one", "other", "equal"),
        [
            (100, 100.0, True),
            (Decimal("100.00"), 100, True),
            (0.1, Decimal("0.1"), True),
            (1, True, False),
            ("1", 1, False),
            (float("nan"), float("nan"), True),
            (float("inf"), Decimal("Infinity"), True),
            (2**53, 2**53 + 1, False),
        ],
    )
    def test_equality_of_values(self, one: object, other: object, equal: bool) -> None:
        assert (sameness({"v": one}) == sameness({"v": other})) is equal


class TestOwnEventsAndPaths:
    def test_a_publisher_gets_its_event_by_the_trivial_flow_if_by_no_other(self) -> None:
        system = replace(also(System(), "A"), unscoped="isolated")
        (mine,) = publish(system, "A").notifications
        assert mine.path == () and mine.version == 1

    def test_and_never_in_another_content(self) -> None:
        edges = [Edge("X", "A"), Edge("X", "B", down_mapping="b = 1"), Edge("A", "T"), Edge("B", "T")]
        assert contents(publish(build(edges), "X")) == {"X": [N]}

    def test_only_if_it_subscribes_to_it(self) -> None:
        system = replace(build("X>A"), subscriptions=(Subscription("X", "s", "price > 100"),))
        assert not publish(system, "X").notifications

    def test_no_echo_through_a_boundary(self) -> None:
        system = build([Edge("X", "K"), Edge("Y", "K"), Edge("K", "S", up_mapping="DROP secret"), Edge("Z", "S")])
        assert same(contents(publish(system, "X")), {"X": [N], "Y": [N], "Z": [F]})

    def test_the_path_is_where_it_turned_and_what_it_came_down_through(self) -> None:
        found = publish(build("X>K K>T L>T M>L Y>M"), "X").notifications
        assert [(n.consumer, n.path) for n in found] == [("X", ("K",)), ("Y", ("T", "L", "M"))]

    def test_a_shorter_path_comes_before_its_extension(self) -> None:
        found = publish(build("X>A Y>A B>A Y>B"), "X").notifications
        assert found[1].path == ("A",)

    def test_versions_are_numbered_by_path_then_by_boundaries(self) -> None:
        edges = [
            Edge("X", "K"),
            Edge("K", "A", up_mapping="a = 1"),
            Edge("K", "B", up_mapping="b = 1"),
            Edge("Y", "T"),
            Edge("A", "T"),
            Edge("B", "T"),
            Edge("Y", "B"),
        ]
        found = [n for n in publish(build(edges), "X", {}).notifications if n.consumer == "Y"]
        assert [(n.version, n.path, n.content) for n in found] == [(1, ("B",), {"b": 1}), (2, ("T",), {"a": 1})]

    def test_all_matching_subscriptions_are_listed_and_the_newest_row_of_a_key_counts(self) -> None:
        rows = [("b", "TRUE"), ("a", "price = 1"), ("c", "price = 1"), ("a", "price = 100"), ("d", "price >")]
        system = replace(build("X>A Y>A"), subscriptions=tuple(Subscription("Y", id, filter) for id, filter in rows))
        (notification,) = publish(system, "X").notifications
        assert notification.subscription_ids == ("a", "b")

    def test_versions_beyond_the_limit_are_recorded(self) -> None:
        ways = [Edge(f"K{i}", "T", up_mapping=f"way = {i}") for i in range(5)]
        inside = [Edge("X", f"K{i}") for i in range(5)]
        system = replace(build([*ways, *inside, Edge("Y", "T")]), versions=3)
        outcome = publish(system, "X")
        assert [n.content.get("way") for n in outcome.notifications if n.consumer == "Y"] == [0, 1]
        assert [dead.kind for dead in outcome.dead] == ["versions"] * 3


class TestTheGraph:
    def test_a_scope_may_publish_and_subscribe_as_what_lies_below_its_boundary(self) -> None:
        scope = Scope("S", input_mapping="i = 1", output_mapping="o = 1")
        system = also(build("X>S S>T Y>T", scope), "S")
        assert contents(publish(system, "S", {})) == {"S": [{}], "Y": [{"o": 1}]}
        assert contents(publish(system, "Y", {})) == {"S": [{"i": 1}], "X": [{"i": 1}], "Y": [{}]}
        assert contents(publish(system, "X", {})) == {"X": [{}], "Y": [{"o": 1}]}

    def test_of_the_edges_of_a_cycle_the_youngest_is_ignored(self) -> None:
        edges = (Edge("A", "B", created_at=3), Edge("B", "C", created_at=1), Edge("C", "A", created_at=2))
        graph, problems = accepted(System(tuple(map(Scope, "ABC")), edges))
        assert {edge.key for edge in graph.edges} == {("B", "C"), ("C", "A")} and problems[0].row == ("A", "B")

    def test_a_scope_is_not_in_itself(self) -> None:
        assert not accepted(build("A>A"))[0].edges

    def test_a_simple_component_is_no_superscope(self) -> None:
        graph, problems = accepted(System((Scope("S"),), (Edge("S", "C"),)))
        assert not graph.edges and problems[0].reason == "the parent is not a scope"

    @pytest.mark.parametrize("bad", [{"up_filter": "price >"}, {"down_mapping": "a = = 1"}])
    def test_an_edge_that_does_not_parse_is_ignored(self, bad: dict[str, str]) -> None:
        graph, problems = accepted(build([Edge("X", "S", **bad)]), parse_mapping)  # type: ignore[arg-type]
        assert not graph.edges and [problem.row for problem in problems] == [("X", "S")]

    def test_an_ignored_edge_closes_no_cycle(self) -> None:
        edges = (Edge("A", "B", up_filter="x >"), Edge("B", "A", created_at=1))
        assert [edge.key for edge in accepted(System((Scope("A"), Scope("B")), edges))[0].edges] == [("B", "A")]

    def test_the_newest_row_of_an_edge_counts_also_if_it_is_bad(self) -> None:
        assert not accepted(build([Edge("X", "S"), Edge("X", "S", up_filter="x >")]))[0].edges

    @pytest.mark.parametrize(
        "bad",
        [
            {"delivery": "some"},
            {"delivery": "k_of_n(0)"},
            {"delivery": "filter(x >)"},
            {"publishing": "sample(2)"},
            {"publishing": "delay(soon)"},
            {"publishing": "rate_limit(5)"},
            {"input_filter": "x >"},
            {"output_mapping": "a = = 1"},
        ],
    )
    def test_a_scope_that_does_not_parse_is_closed(self, bad: dict[str, str]) -> None:
        system = build("X>K Y>K K>S Z>S", Scope("K", **bad))  # type: ignore[arg-type]
        assert receivers(system, "X") == {"X"} and receivers(system, "Z") == {"Z"}
        assert [problem.row for problem in accepted(system, parse_mapping)[1]] == [("K",)]


def eligible(*names: str, **scope: str) -> System:
    return build(" ".join(f"{name}>S" for name in names), Scope("S", **scope))


def with_properties(system: System, **properties: dict[str, str]) -> System:
    return replace(system, components=tuple(Component(name, values) for name, values in properties.items()))


class TestDelivery:
    def test_one_of_n_spreads_the_load_and_is_stable(self) -> None:
        system = also(build("A>S B>S C>S S>T P>T", Scope("S", delivery="one_of_n")), "P")
        chosen = [receivers(system, "P", id=str(i)) - {"P"} for i in range(60)]
        assert all(len(some) == 1 for some in chosen)
        assert {name for some in chosen for name in some} == {"A", "B", "C"}
        assert chosen == [receivers(system, "P", {"other": 1}, id=str(i)) - {"P"} for i in range(60)]

    def test_only_those_who_want_the_event_are_eligible(self) -> None:
        system = build("A>S B>S S>T P>T", Scope("S", delivery="one_of_n"))
        asks = (Subscription("A", "s", "price = 1"), Subscription("B", "s", "price = 100"))
        assert all(receivers(replace(system, subscriptions=asks), "P", id=str(i)) == {"B"} for i in range(20))

    def test_k_of_n(self) -> None:
        system = build("A>S B>S C>S S>T P>T", Scope("S", delivery="k_of_n(2)"), subscriptions=())
        assert len(receivers(also(system, "A", "B", "C"), "P")) == 2
        assert len(receivers(also(system, "A"), "P")) == 1

    @pytest.mark.parametrize(
        ("values", "first"),
        [(["10", "9", "a"], "B"), (["b", "a", None], "B"), ([None, "x", "-1"], "C"), ([None, None, "zz"], "C")],
    )
    def test_first_matching(self, values: list[str | None], first: str) -> None:
        system = build("A>S B>S C>S S>T P>T", Scope("S", delivery="first_matching(rank)"))
        rows = {name: {"rank": value} for name, value in zip("ABC", values, strict=True) if value is not None}
        assert receivers(with_properties(system, **rows), "P") == {"P", first}

    def test_filter(self) -> None:
        system = build(
            "A>S B>S C>S S>T P>T", Scope("S", delivery="filter(level >= 5 OR component = 'C' OR level = '4')")
        )
        assert receivers(with_properties(system, A={"level": "10"}, B={"level": "4.0"}), "P") == {"P", "A", "C"}
        assert receivers(with_properties(system, A={"level": "high"}, B={"level": "4"}), "P") == {"P", "B", "C"}

    @pytest.mark.parametrize("inner", ["one_of_n", "k_of_n(2)", "first_matching(rank)"])
    def test_nested_choices_never_end_in_none(self, inner: str) -> None:
        outer, inside = Scope("O", delivery="one_of_n"), Scope("I", delivery=inner)
        system = build("A>I B>I C>I D>O I>O O>T P>T", outer, inside)
        chosen = [receivers(system, "P", id=str(i)) - {"P"} for i in range(30)]
        assert all(len(some) == 1 for some in chosen)

    def test_a_path_free_of_policies_delivers_beside_a_policy(self) -> None:
        system = build("A>S B>S S>T P>T A>T B>U U>T", Scope("S", delivery="one_of_n"))
        assert receivers(system, "P") == {"P", "A", "B"}

    def test_it_judges_what_turns_at_the_scope_too(self) -> None:
        system = build("A>S B>S C>S P>S", Scope("S", delivery="one_of_n"))
        system = replace(system, subscriptions=tuple(s for s in system.subscriptions if s.consumer != "P"))
        assert all(len(receivers(system, "P", id=str(i))) == 1 for i in range(10))

    def test_who_is_chosen_gets_every_content_that_the_flow_brings(self) -> None:
        edges = [Edge("A", "S"), Edge("I", "S"), Edge("A", "I", down_mapping="i = 1"), Edge("P", "T"), Edge("S", "T")]
        found = contents(publish(build(edges, Scope("S", delivery="one_of_n")), "P", {}))
        assert found["A"] == [{}, {"i": 1}]

    def test_a_refused_consumer_is_not_chosen(self) -> None:
        system = build("A>I B>I I>O O>T P>T", Scope("I", delivery="one_of_n"))
        closed = replace(system, grants=(Grant("*", "subscribe", "O"), Grant("A", "subscribe", "O", allowed=False)))
        assert all(receivers(closed, "P", id=str(i)) == {"P", "B"} for i in range(20))


def flood(policy: str, clocks: list[float], per_batch: int = 2, content: Content | None = None) -> list[list[str]]:
    """The ids that leave scope S in each batch, of events of X in it."""
    asked, system, got = reference(), build("X>S S>T Y>T", Scope("S", publishing=policy)), []
    for number, clock in enumerate(clocks):
        events = [Event("X", f"{number}.{i}", content or {"a": i}) for i in range(per_batch)]
        got.append([n.event_id for n in asked.batch(system, events, clock).notifications if n.consumer == "Y"])
    return got


class TestPublishing:
    def test_forward_and_discard(self) -> None:
        assert flood("forward", [0]) == [["0.0", "0.1"]] and flood("discard", [0]) == [[]]

    def test_sample_is_a_share_that_a_retry_repeats(self) -> None:
        (some,) = flood("sample(0.3)", [0], per_batch=300)
        assert 60 < len(some) < 120 and [some] == flood("sample(0.3)", [0], per_batch=300)
        assert flood("sample(0)", [0]) == [[]] and flood("sample(1)", [0]) == [["0.0", "0.1"]]

    def test_rate_limit_counts_in_windows_of_the_clock(self) -> None:
        assert flood("rate_limit(3, 10 seconds)", [1, 9, 10, 11]) == [["0.0", "0.1"], ["1.0"], ["2.0", "2.1"], ["3.0"]]

    def test_throttle_lets_the_first_of_each_value_through(self) -> None:
        assert flood("throttle(a, 10 seconds)", [1, 5, 11]) == [["0.0", "0.1"], [], ["2.0", "2.1"]]
        assert flood("throttle(b, 10 seconds)", [1, 10.5, 11]) == [["0.0"], [], ["2.0"]]

    def test_throttle_takes_equal_numbers_as_one_value(self) -> None:
        system = build("X>S S>T Y>T", Scope("S", publishing="throttle(a, 1 minute)"))
        outcome = reference().batch(system, [Event("X", "1", {"a": 100}), Event("X", "2", {"a": 100.0})], 0)
        assert [n.event_id for n in outcome.notifications if n.consumer == "Y"] == ["1"]

    def test_delay(self) -> None:
        assert flood("delay(10 seconds)", [0, 9, 10, 19]) == [[], [], ["0.0", "0.1"], ["1.0", "1.1"]]

    def test_a_delayed_event_meets_the_graph_and_the_subscriptions_of_its_later_batch(self) -> None:
        delayed = Scope("S", publishing="delay(5 seconds)")
        asked, before, after = reference(), build("X>S S>T Y>T", delayed), build("X>S S>T Z>T", delayed)
        assert set(contents(asked.batch(before, [Event("X", "e", N)], 0))) == {"X"}
        assert set(contents(asked.batch(after, [], 5))) == {"Z"}

    def test_what_arrived_before_does_not_arrive_again(self) -> None:
        asked, system = reference(), build("X>S S>T Y>T X>U Y>U", Scope("S", publishing="delay(5 seconds)"))
        assert set(contents(asked.batch(system, [Event("X", "e", N)], 0))) == {"X", "Y"}
        assert not asked.batch(system, [], 5).notifications

    def test_a_version_that_arrives_later_has_the_next_number(self) -> None:
        late = Scope("S", publishing="delay(5 seconds)", output_mapping="DROP secret")
        asked, system = reference(), build("X>S S>T Y>T X>U Y>U", late)
        asked.batch(system, [Event("X", "e", N)], 0)
        assert [(n.consumer, n.content, n.version) for n in asked.batch(system, [], 5).notifications] == [("Y", F, 2)]

    def test_a_flow_that_was_held_does_not_echo(self) -> None:
        asked, system = reference(), build("X>S W>S S>T S>U Y>T", Scope("S", publishing="delay(1 second)"))
        asked.batch(system, [Event("X", "e", N)], 0)
        assert set(contents(asked.batch(also(system, "V"), [], 1))) == {"Y"}

    def test_what_a_dropped_scope_held_is_gone(self) -> None:
        asked, system = reference(), build("X>S S>T Y>T", Scope("S", publishing="delay(1 second)"))
        asked.batch(system, [Event("X", "e", N)], 0)
        dropped = replace(system, scopes=tuple(scope for scope in system.scopes if scope.name != "S"))
        assert not asked.batch(dropped, [], 1).notifications

    def test_a_version_is_judged_once_however_many_superscopes(self) -> None:
        system = build("X>S S>T S>U Y>T Z>U", Scope("S", publishing="rate_limit(1, 1 hour)"))
        assert receivers(system, "X") == {"X", "Y", "Z"}

    def test_and_however_many_ways_brought_it_there(self) -> None:
        edges = [Edge("X", "A", up_filter="TRUE"), Edge("X", "S"), Edge("A", "S"), Edge("S", "T"), Edge("Y", "T")]
        system = build(edges, Scope("S", publishing="rate_limit(2, 1 hour)"))
        outcome = reference().batch(system, [Event("X", id, N) for id in "123"], 0)
        assert [n.event_id for n in outcome.notifications if n.consumer == "Y"] == ["1", "2"]

    def test_it_is_judged_after_the_output_filter(self) -> None:
        system = build("X>S S>T Y>T", Scope("S", publishing="rate_limit(1, 1 hour)", output_filter="a = 2"))
        outcome = reference().batch(system, [Event("X", "1", {"a": 1}), Event("X", "2", {"a": 2})], 0)
        assert [n.event_id for n in outcome.notifications if n.consumer == "Y"] == ["2"]

    def test_inside_the_scope_nothing_is_stopped(self) -> None:
        assert receivers(build("X>S W>S S>T Y>T", Scope("S", publishing="discard")), "X") == {"X", "W"}

    def test_another_policy_begins_anew(self) -> None:
        asked, got = reference(), []
        for id, policy in enumerate(["rate_limit(1, 1 hour)", "rate_limit(1, 2 hours)", "rate_limit(1, 1 hour)"]):
            system = build("X>S S>T Y>T", Scope("S", publishing=policy))
            got.append("Y" in contents(asked.batch(system, [Event("X", str(id), N)], 0)))
        assert got == [True, True, False]


class TestSecurity:
    SYSTEM = build("X>S Y>S Z>S")

    def guarded(self, *grants: Grant, **groups: str) -> System:
        rows = tuple(Component(name, {"groups": value}) for name, value in groups.items())
        return replace(self.SYSTEM, grants=grants, components=rows)

    def test_publishing_is_open_until_a_grant_names_the_scope(self) -> None:
        assert receivers(self.guarded(Grant("X", "publish", "S")), "X") == {"X", "Y", "Z"}
        assert receivers(self.guarded(Grant("X", "publish", "other")), "Y") == {"X", "Y", "Z"}

    def test_a_refused_publication_is_recorded_and_leaks_nothing(self) -> None:
        outcome = publish(self.guarded(Grant("X", "publish", "S")), "Y")
        assert set(contents(outcome)) == {"Y"} and [dead.kind for dead in outcome.dead] == ["refused"]

    def test_it_stops_at_that_scope_only(self) -> None:
        system = build("X>S S>T X>U Y>S Z>T V>U", grants=(Grant("Y", "publish", "S"),))
        outcome = publish(system, "X")
        assert set(contents(outcome)) == {"X", "V"} and not outcome.dead

    def test_it_does_not_come_down_into_that_scope_either(self) -> None:
        system = build("X>T S>T Y>S Z>T", grants=(Grant("Y", "publish", "S"),))
        assert receivers(system, "X") == {"X", "Z"}

    def test_groups_priorities_and_prohibitions(self) -> None:
        both = (Grant("red", "publish", "S", 1), Grant("blue", "publish", "S", 1, allowed=False))
        assert receivers(self.guarded(*both, X="red"), "X") == {"X", "Y", "Z"}
        assert receivers(self.guarded(*both, X="red, blue"), "X") == {"X"}
        higher = (*both, Grant("X", "publish", "S", 2))
        assert receivers(self.guarded(*higher, X="red, blue"), "X") == {"X", "Y", "Z"}
        assert receivers(self.guarded(Grant("*", "publish", "S")), "X") == {"X", "Y", "Z"}

    def test_a_refused_subscriber_is_reached_by_other_ways_only(self) -> None:
        system = build("X>S Y>S Z>S S>T Y>T", grants=(Grant("Z", "subscribe", "S"),))
        found = publish(system, "X").notifications
        assert [(n.consumer, n.path) for n in found] == [("X", ()), ("Y", ("T",)), ("Z", ("S",))]
        assert [p.row for p in accepted(system)[1]] == [("X",), ("Y",)]

    def test_joining_needs_one_who_may_and_none_who_must_not(self) -> None:
        def joined(*grants: Grant) -> bool:
            return bool(accepted(System((Scope("S"),), (Edge("C", "S", created_by="boss"),), grants=grants))[0].edges)

        assert joined() and joined(Grant("C", "join", "S")) and joined(Grant("boss", "join", "S"))
        assert not joined(Grant("D", "join", "S"))
        assert not joined(Grant("C", "join", "S"), Grant("boss", "join", "S", allowed=False))
        assert not joined(Grant("*", "join", "S", 9, allowed=False), Grant("C", "join", "S"))

    def test_a_component_whose_joins_are_all_refused_is_in_world(self) -> None:
        system = also(build("X>S Y>S", grants=(Grant("Y", "join", "S"),)), "A")
        assert receivers(system, "A") == {"A", "X"}


def play(run: Run) -> list[Outcome]:
    asked = reference()
    return [asked.batch(system, *batch) for system, batch in zip(run.systems, run.batches, strict=True)]


def delivered(outcomes: list[Outcome]) -> list[set[object]]:
    return [{(n.consumer, n.publisher, n.event_id, sameness(n.content)) for n in o.notifications} for o in outcomes]


def literal(graph: Graph, event: Event) -> set[tuple[str, object]]:
    """Definition 3 once more, as a search for paths without policies or grants: what arrives where."""
    found: set[tuple[str, object]] = set()

    def through(content: Content, *steps: tuple[str | None, str | None]) -> Content | None:
        for filter, mapping in steps:
            if filter is not None and not matches(filter, content):
                return None
            if mapping is not None:
                try:
                    content = apply_mapping(mapping, content)
                except Exception:
                    return None
        return content

    def scope(name: str) -> Scope:
        return graph.scopes.get(name, Scope(name))

    def descend(node: str, content: Content, climbed: tuple[Edge, ...]) -> None:
        for edge in graph.down(node):
            child = scope(edge.child)
            arrived = through(content, (edge.down_filter, edge.down_mapping), (child.input_filter, child.input_mapping))
            if arrived is None or (edge in climbed and graph.is_boundary(edge)):
                continue
            if edge.child != event.publisher or sameness(arrived) == sameness(event.attributes):
                found.add((edge.child, sameness(arrived)))
            descend(edge.child, arrived, climbed)

    def climb(node: str, content: Content, climbed: tuple[Edge, ...]) -> None:
        for edge in graph.up(node):
            child = scope(node)
            arrived = through(content, (child.output_filter, child.output_mapping), (edge.up_filter, edge.up_mapping))
            if arrived is not None:
                descend(edge.parent, arrived, (*climbed, edge))
                climb(edge.parent, arrived, (*climbed, edge))

    climb(event.publisher, event.attributes, ())
    return found | {(event.publisher, sameness(event.attributes))}


class TestLaws:
    @given(systems(world=True, policies=False, grants=False, mistakes=False))
    def test_without_policies_what_arrives_is_what_the_definition_says(self, run: Run) -> None:
        everyone = {s.consumer for s in run.system.subscriptions}
        system = replace(
            run.system, subscriptions=tuple(Subscription(c, "all", "TRUE") for c in everyone), versions=10**6
        )
        graph, _ = accepted(system)
        for event in run.batches[0][0]:
            outcome = reference().batch(system, [event], 0)
            got = {(n.consumer, sameness(n.content)) for n in outcome.notifications}
            assert got == {(name, content) for name, content in literal(graph, event) if name in everyone}
            assert len(got) == len(outcome.notifications)

    @given(systems(world=True, mistakes=False), st.randoms(use_true_random=False))
    def test_an_identity_scope_inside_an_identity_edge_changes_no_contents(self, run: Run, rng: random.Random) -> None:
        run = run._replace(system=replace(run.system, versions=rng.choice([2, 3, 64])))
        graph, _ = accepted(run.system)
        plain = [edge for edge in graph.edges if not graph.is_boundary(edge)]
        assume(plain)
        assume(not any(grant.action == "join" for grant in run.system.grants))
        edge = rng.choice(plain)
        middle = rng.choice(["!", "M", "~"])
        longer = [replace(edge, parent=middle), replace(edge, child=middle)]
        others = tuple(other for other in run.system.edges if other.key != edge.key)
        system = replace(run.system, scopes=(*run.system.scopes, Scope(middle)), edges=(*others, *longer))
        assume({e.key for e in accepted(system)[0].edges} > {e.key for e in graph.edges if e.key != edge.key})
        before, after = (Run(some, run.batches, [some] * (len(run.batches) - 1)) for some in (run.system, system))
        assert delivered(play(before)) == delivered(play(after))

    @given(systems(world=True, filters=False, mappings=False))
    def test_only_what_is_visible_is_delivered_if_nothing_changes_contents(self, run: Run) -> None:
        still = Run(run.system, run.batches, [run.system] * (len(run.batches) - 1))
        for outcome in play(still):
            for n in outcome.notifications:
                assert visible(run.system, n.publisher, n.consumer) and n.version == 1

    @given(systems(world=True, filters=False, mappings=False, policies=False, grants=False))
    def test_without_boundaries_exactly_what_is_visible_is_delivered(self, run: Run) -> None:
        everyone = {s.consumer for s in run.system.subscriptions}
        system = replace(run.system, subscriptions=tuple(Subscription(c, "all", "TRUE") for c in everyone))
        for event in run.batches[0][0]:
            assert receivers(system, event.publisher) == {c for c in everyone if visible(system, event.publisher, c)}

    @given(systems(world=True))
    def test_lemma_1_visible_iff_the_visibility_roots_meet(self, run: Run) -> None:
        graph, _ = accepted(run.system)

        def roots(name: str) -> set[str]:
            return {above for above in graph.closure(name) if not graph.up(above)}

        names = sorted({edge.child for edge in run.system.edges} | {s.consumer for s in run.system.subscriptions})
        for x in names:
            for y in names:
                assert visible(run.system, x, y) == bool(roots(x) & roots(y)) == visible(run.system, y, x)

    @given(systems(world=True))
    def test_only_of_interest_and_at_most_once(self, run: Run) -> None:
        outcomes = play(run)
        got = [(n.consumer, n.publisher, n.event_id, sameness(n.content)) for o in outcomes for n in o.notifications]
        numbers = [(n.consumer, n.publisher, n.event_id, n.version) for o in outcomes for n in o.notifications]
        assert len(got) == len(set(got)) and len(numbers) == len(set(numbers))
        assert all(n.subscription_ids for o in outcomes for n in o.notifications)

    def test_packed_systems_stay_apart(self) -> None:
        runs = [random_system(random.Random(seed), f"p{seed}.") for seed in range(6)]
        alone = [delivered([reference().batch(run.system, *run.batches[0])])[0] for run in runs]
        first = [run.system for run in runs]
        packed = System(
            *(
                tuple(row for system in first for row in getattr(system, table))
                for table in ("scopes", "edges", "components", "grants", "subscriptions")
            )
        )
        events = [event for run in runs for event in run.batches[0][0]]
        assert delivered([reference().batch(packed, events, runs[0].batches[0][1])])[0] == set().union(*alone)
