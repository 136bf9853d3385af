"""What is told of alerts that fire together, in made-up time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from specwatch.alerting.catalogue import alert
from specwatch.alerting.evaluation import AlertStatus, Ending, State, Transition
from specwatch.alerting.incidents import GROUP_INTERVAL, GROUP_WAIT, Incidents, News

START = 1_700_000_000.0
DOWN = alert("SpeculationTargetDown")


def firing(target: str, at: float = START, model: str = "llama") -> AlertStatus:
    return AlertStatus(
        alert=DOWN, target=target, model=model, state=State.FIRING, at=at, since=at, value=0.0, value_at=at
    )


def over(target: str, at: float) -> Transition:
    return Transition(**{**vars(firing(target)), "at": at, "state": State.RESOLVED}, ending=Ending.CLEARED)


class Told:
    """Incidents, and what they tell at which time."""

    def __init__(self) -> None:
        self.incidents = Incidents()
        self.muted: Callable[[AlertStatus], bool] = lambda status: False

    def at(self, seconds: float) -> list[tuple[list[str], list[str]]]:
        """Names that fire and that are over, of each message due so long after the start."""
        return [names(news) for news in self.incidents.due(START + seconds, self.muted)]


def names(news: News) -> tuple[list[str], list[str]]:
    return [status.target for status in news.firing], [status.target for status in news.over]


def opened(*targets: str) -> Told:
    """An incident of which everybody heard at the start plus GROUP_WAIT."""
    told = Told()
    for target in targets:
        told.incidents.fires(firing(target))
    assert told.at(GROUP_WAIT) == [(list(targets), [])]
    return told


def test_servers_that_fail_together_come_in_one_message_after_a_wait():
    told = Told()
    told.incidents.fires(firing("a"))
    assert told.at(GROUP_WAIT - 1) == []
    told.incidents.fires(firing("b", START + GROUP_WAIT - 1))
    assert told.at(GROUP_WAIT) == [(["a", "b"], [])]
    assert told.at(GROUP_WAIT + 3600) == []


def test_models_and_alerts_are_told_apart():
    told = Told()
    told.incidents.fires(firing("a"))
    told.incidents.fires(firing("b", model="qwen"))
    told.incidents.fires(replace(firing("a"), alert=alert("SpeculationDrifted")))
    news = told.incidents.due(START + GROUP_WAIT, told.muted)
    assert [names(one) for one in news] == [(["a"], []), (["b"], []), (["a"], [])]
    assert len({one.key for one in news}) == 3


def test_news_of_an_open_incident_waits_for_the_interval_and_has_its_key():
    told = opened("a")
    told.incidents.fires(firing("b", START + GROUP_WAIT + 1))
    assert told.at(GROUP_WAIT + GROUP_INTERVAL - 1) == []
    (news,) = told.incidents.due(START + GROUP_WAIT + GROUP_INTERVAL, told.muted)
    assert names(news) == (["a", "b"], [])
    assert news.key == "specwatch/SpeculationTargetDown/a"


def test_a_part_that_is_over_waits_for_the_interval_and_the_end_of_all_waits_for_nothing():
    told = opened("a", "b")
    told.incidents.over(over("a", START + 60))
    assert told.at(60) == []
    assert told.at(GROUP_WAIT + GROUP_INTERVAL) == [(["b"], ["a"])]
    told.incidents.over(over("b", START + 400))
    assert told.at(400) == [([], ["b"])]
    assert told.incidents.key_of(DOWN.name, "b") is None


def test_what_is_over_before_it_was_told_is_no_news():
    told = Told()
    told.incidents.fires(firing("a"))
    told.incidents.over(over("a", START + 10))
    assert told.at(GROUP_WAIT) == []


def test_what_is_muted_before_it_was_told_is_left_out_and_comes_when_it_is_not_any_more():
    told = Told()
    told.incidents.fires(firing("a"))
    told.incidents.fires(firing("b"))
    told.muted = lambda status: status.target == "a"
    assert told.at(GROUP_WAIT) == [(["b"], [])]
    told.incidents.fires(firing("a", START + 100))
    told.muted = lambda status: False
    assert told.at(GROUP_WAIT + GROUP_INTERVAL) == [(["b", "a"], [])]


def test_an_incident_of_which_all_is_withdrawn_leaves_no_trace():
    told = Told()
    told.incidents.fires(firing("a"))
    told.incidents.withdraw(firing("a"))
    told.incidents.fires(firing("b", START + 100))
    assert told.at(100 + GROUP_WAIT - 1) == []
    assert told.at(100 + GROUP_WAIT) == [(["b"], [])]


def test_what_fires_again_before_its_end_was_told_is_no_news():
    told = opened("a", "b")
    told.incidents.over(over("a", START + 60))
    told.incidents.fires(firing("a", START + 120))
    assert told.at(GROUP_WAIT + GROUP_INTERVAL) == []


def test_a_server_whose_model_becomes_known_opens_no_second_incident_of_the_same_key():
    told = Told()
    for target in ("a", "b"):
        told.incidents.fires(firing(target, model=""))
    (first,) = told.incidents.due(START + GROUP_WAIT, told.muted)
    told.incidents.over(over("a", START + 60))
    assert told.at(GROUP_WAIT + GROUP_INTERVAL) == [(["b"], ["a"])]
    told.incidents.fires(firing("a", START + 500))
    (second,) = told.incidents.due(START + 500 + GROUP_WAIT, told.muted)
    assert names(second) == (["a"], [])
    assert second.key != first.key


def test_a_restored_incident_keeps_its_key_and_repeats_nothing():
    told = Told()
    told.incidents.restore(firing("a"), "the key", START)
    told.incidents.restore(over("b", START), "the key", START)
    told.incidents.fires(firing("a", START + 5))
    assert told.at(GROUP_INTERVAL - 1) == []
    assert told.at(GROUP_INTERVAL) == [(["a"], ["b"])]
    told.incidents.over(over("a", START + 400))
    (news,) = told.incidents.due(START + 400, told.muted)
    assert (names(news), news.key) == (([], ["a"]), "the key")


def test_restored_incidents_keep_their_keys_although_a_model_became_known_meanwhile():
    told = Told()
    for target, model, key in (("a", "llama", "one"), ("b", "", "one"), ("c", "llama", "two"), ("d", "", "three")):
        told.incidents.restore(firing(target, model=model), key, START)
    keys = {target: told.incidents.key_of(DOWN.name, target) for target in "abcd"}
    assert keys == {"a": "one", "b": "one", "c": "two", "d": "three"}
    told.incidents.over(over("a", START + 60))
    told.incidents.over(over("c", START + 60))
    (news,) = told.incidents.due(START + 60, told.muted)
    assert (news.key, names(news)) == ("two", ([], ["c"]))


Steps = st.lists(
    st.tuples(st.floats(1, 200), st.sampled_from("abc"), st.sampled_from(["fires", "over", "mute", "unmute"])),
    max_size=60,
)


@given(Steps)
def test_whatever_happens_each_server_is_told_to_fire_and_to_be_over_in_turns(steps: list[tuple[float, str, str]]):
    told = Told()
    muted: set[str] = set()
    told.muted = lambda status: status.target in muted
    at, fires, heard = 0.0, set[str](), dict[str, bool]()
    for seconds, target, what in [*steps, *((GROUP_INTERVAL, name, "over") for name in "abc")]:
        at += seconds
        if what == "fires":
            fires.add(target)
        elif what == "over" and target in fires:
            fires.remove(target)
            told.incidents.over(over(target, START + at))
        elif what in ("mute", "unmute"):
            (muted.add if what == "mute" else muted.discard)(target)
        for name in fires:
            status = firing(name, START + at)
            (told.incidents.withdraw if name in muted else told.incidents.fires)(status)
        for all_firing, all_over in told.at(at):
            for name in all_over:
                assert heard.get(name), "over, and nobody had heard that it fires"
                heard[name] = False
            heard |= dict.fromkeys(all_firing, True)
    assert not any(heard.values()), "told as firing, and never as over"
