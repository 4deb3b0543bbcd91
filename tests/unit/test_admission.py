"""Admission's rules: who begins, who waits, who is refused, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from admission_kit import Records, ask, controller, leased, outcomes, settled

from e3rg.admission.contracts import Lease, Limits, Offer, Outcome, Priority, Refusal, Spend


async def _later(seconds: float = 0.02) -> None:
    await asyncio.sleep(seconds)


async def test_what_does_not_fit_waits_until_a_lease_comes_back() -> None:
    async with controller() as admission:
        first, second = await leased(admission, ask(), ask())
        third = asyncio.create_task(admission.admit(ask()))
        await _later()
        assert not third.done()
        await admission.settle(first.id)
        lease = await third
        assert isinstance(lease, Lease)
        assert lease.waited_s > 0
        await admission.settle(second.id)
        await admission.settle(lease.id)
        await settled(admission)


async def test_a_wait_ends_in_time_with_an_estimate() -> None:
    async with controller() as admission:
        await leased(admission, ask(), ask())
        refusal = await admission.admit(ask(queue_s=0.05))
        assert isinstance(refusal, Refusal)
        assert refusal.outcome is Outcome.QUEUE_TIMEOUT
        assert 1 <= refusal.retry_after_s <= 60


async def test_the_queue_is_bounded_and_refuses_at_once() -> None:
    async with controller(max_queue=3) as admission:
        held = await leased(admission, ask(), ask())
        waiting = [asyncio.create_task(admission.admit(ask())) for _ in range(10)]
        await _later()
        refused = [each for each in waiting if each.done()]
        assert outcomes([each.result() for each in refused]) == {"queue_full": 7}
        for lease in held:
            await admission.settle(lease.id)
        for each in waiting:
            if isinstance(lease := await each, Lease):
                await admission.settle(lease.id)
        await settled(admission)


async def test_without_a_queue_only_what_fits_begins() -> None:
    async with controller(max_queue=0) as admission:
        assert outcomes([await admission.admit(ask()) for _ in range(4)]) == {
            "admitted": 2,
            "queue_full": 2,
        }


async def test_what_can_never_fit_is_said_so() -> None:
    async with controller() as admission:
        refusal = await admission.admit(ask(offers=(Offer("video", {"dialogue": 3.0}),)))
        assert isinstance(refusal, Refusal)
        assert refusal.outcome is Outcome.NEVER_FITS
        assert "dialogue" in refusal.message


async def test_a_higher_class_goes_first_and_pushes_a_lower_one_out() -> None:
    async with controller(max_queue=2) as admission:
        held = await leased(admission, ask(), ask())
        batch = [asyncio.create_task(admission.admit(ask(priority=Priority.BATCH))) for _ in "ab"]
        await _later()
        talk = asyncio.create_task(admission.admit(ask()))
        await _later()
        assert [each.done() for each in batch] == [False, True]
        await admission.settle(held[0].id)
        assert isinstance(await talk, Lease)
        assert not batch[0].done()
        await admission.settle(held[1].id)
        assert isinstance(await batch[0], Lease)


async def test_a_large_request_is_not_starved_by_small_ones() -> None:
    async with controller() as admission:
        small = (await leased(admission, ask()))[0]
        large = asyncio.create_task(admission.admit(ask(offers=(Offer("v", {"dialogue": 2.0}),))))
        await _later()
        passing = asyncio.create_task(admission.admit(ask("b")))
        other = await admission.admit(ask("c", offers=(Offer("v", {"memory": 1.0}),)))
        assert isinstance(other, Lease)  # needs nothing of what is kept
        await _later()
        assert not passing.done()
        await admission.settle(small.id)
        lease = await large
        assert isinstance(lease, Lease)
        assert not passing.done()
        await admission.settle(lease.id)
        assert isinstance(await passing, Lease)


async def test_less_is_given_after_a_while_and_is_named() -> None:
    offers = (Offer("video", {"dialogue": 1.0, "avatar": 25.0}), Offer("audio", {"dialogue": 1.0}))
    async with controller(capacity={"dialogue": 4.0, "avatar": 25.0}) as admission:
        first = await admission.admit(ask(offers=offers))
        assert isinstance(first, Lease)
        assert first.offer == 0
        second = await admission.admit(ask(offers=offers, degrade_s=0.05))
        assert isinstance(second, Lease)
        assert second.offer == 1
        assert second.waited_s >= 0.05
        only_video = await admission.admit(ask(offers=offers[:1], queue_s=0.1))
        assert isinstance(only_video, Refusal)


async def test_tenants_share_by_weight_whatever_they_offer() -> None:
    """One asks for ten times as much; the other two get what their weights say."""
    weights = {"flood": 1.0, "one": 1.0, "two": 2.0}
    offered = {"flood": 200, "one": 50, "two": 80}
    async with controller(max_queue=400, capacity={"dialogue": 1.0}) as admission:
        gate = await leased(admission, ask("gate"))
        served: list[str] = []

        async def run(tenant: str) -> None:
            limits = Limits(weight=weights[tenant])
            decision = await admission.admit(ask(tenant, limits=limits, queue_s=60))
            if isinstance(decision, Lease):
                served.append(tenant)
                await admission.settle(decision.id)

        tasks = [
            asyncio.create_task(run(tenant)) for tenant, n in offered.items() for _ in range(n)
        ]
        await _later()
        await admission.settle(gate[0].id)
        await asyncio.gather(*tasks)
        await settled(admission)
    # While all three wait: a quarter, a quarter, a half.
    count = Counter(served[:120])
    assert (count["flood"], count["one"], count["two"]) == pytest.approx((30, 30, 60), abs=2)


async def test_a_full_queue_makes_the_flooder_give_way() -> None:
    async with controller(max_queue=10, capacity={"dialogue": 1.0}) as admission:
        await leased(admission, ask("gate"))
        flood = [asyncio.create_task(admission.admit(ask("flood"))) for _ in range(10)]
        await _later()
        polite = [asyncio.create_task(admission.admit(ask("polite"))) for _ in range(5)]
        await _later()
        assert outcomes([each.result() for each in flood if each.done()]) == {"queue_full": 5}
        assert not any(each.done() for each in polite)


async def test_two_hundred_race_for_the_last_unit() -> None:
    records = Records()
    records.write("a", "before", Spend(video_frames=900))
    records.pause_s = 0.01
    limits = Limits(quota={"video_frames": 1000})
    async with controller(records, capacity={"dialogue": 1000.0}, max_queue=1000) as admission:
        wanted = [ask(limits=limits, estimate=Spend(video_frames=100)) for _ in range(200)]
        decisions = await asyncio.gather(*(admission.admit(each) for each in wanted))
        assert outcomes(decisions) == {"admitted": 1, "quota_exceeded": 199}
        refused = next(each for each in decisions if isinstance(each, Refusal))
        assert (refused.unit, refused.retry_after_s > 0) == ("video_frames", True)
        winner = next(each for each in decisions if isinstance(each, Lease))
        # It spends less than it reserved, so that there is room for one of 40 and not for two.
        records.write("a", winner.id, Spend(video_frames=60))
        await admission.settle(winner.id)
        small = [ask(limits=limits, estimate=Spend(video_frames=40)) for _ in range(200)]
        decisions = await asyncio.gather(*(admission.admit(each) for each in small))
        assert outcomes(decisions) == {"admitted": 1, "quota_exceeded": 199}


async def test_a_refusal_costs_neither_quota_nor_rate() -> None:
    limits = Limits(requests_per_minute=10, quota={"audio_out_ms": 1000})
    async with controller(max_queue=0) as admission:
        await leased(admission, ask("b"), ask("b"))
        for _ in range(20):
            refusal = await admission.admit(ask(limits=limits, estimate=Spend(audio_out_ms=1000)))
            assert isinstance(refusal, Refusal)
            assert refusal.outcome is Outcome.QUEUE_FULL
            assert refusal.rate.remaining_requests == 9  # as it was when it asked: with its own
        assert not (await admission.stats()).reserved


async def test_rates_run_out_and_say_when_they_are_back() -> None:
    limits = Limits(requests_per_minute=3)
    async with controller(capacity={}) as admission:
        decisions = [await admission.admit(ask(limits=limits)) for _ in range(4)]
        assert outcomes(decisions) == {"admitted": 3, "rate_limited": 1}
        refusal = decisions[-1]
        assert isinstance(refusal, Refusal)
        assert 1 <= refusal.retry_after_s <= 20
        assert (refusal.rate.limit_requests, refusal.rate.remaining_requests) == (3, 0)
        closed = await admission.admit(ask("z", limits=Limits(requests_per_minute=0)))
        assert isinstance(closed, Refusal)
        assert "set to 0" in closed.message


async def test_turns_at_once_are_limited_over_everybody_who_asks() -> None:
    limits = Limits(concurrent_turns=2)
    async with controller(capacity={}) as admission:
        asks = [ask(limits=limits, holder=gateway) for gateway in "xy"]
        held = await leased(admission, *asks)
        waiting = [asyncio.create_task(admission.admit(ask(limits=limits))) for _ in range(5)]
        await _later()
        assert outcomes([each.result() for each in waiting if each.done()]) == {
            "concurrency_limited": 3
        }
        for lease in held:
            await admission.settle(lease.id)
        assert outcomes(await asyncio.gather(*waiting))["admitted"] == 2


async def test_sessions_are_counted_apart() -> None:
    limits = Limits(concurrent_sessions=1, requests_per_minute=1)
    session = (Offer("session", {}),)
    async with controller() as admission:
        first = await admission.admit(ask(kind="session", offers=session, limits=limits))
        second = await admission.admit(ask(kind="session", offers=session, limits=limits))
        assert outcomes([first, second]) == {"admitted": 1, "concurrency_limited": 1}
        assert isinstance(await admission.admit(ask(limits=limits)), Lease)  # its rate is whole
        assert isinstance(first, Lease)
        await admission.settle(first.id)
        third = await admission.admit(ask(kind="session", offers=session, limits=limits))
        assert isinstance(third, Lease)


async def test_leaving_while_waiting_leaves_nothing() -> None:
    limits = Limits(requests_per_minute=1000, quota={"prompt_tokens": 10**6})
    async with controller() as admission:
        held = await leased(admission, ask(), ask())
        waiting = [
            asyncio.create_task(
                admission.admit(ask(limits=limits, estimate=Spend(prompt_tokens=10)))
            )
            for _ in range(50)
        ]
        await _later()
        assert (await admission.stats()).waiting["interactive"] == 50
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        for lease in held:
            await admission.settle(lease.id)
        await settled(admission)


async def test_leaving_at_the_moment_of_the_answer_gives_the_lease_back() -> None:
    async with controller(capacity={"dialogue": 1.0}) as admission:
        for _ in range(50):
            held = await leased(admission, ask())
            waiting = asyncio.create_task(admission.admit(ask()))
            await _later(0)
            await _later(0)
            settling = asyncio.create_task(admission.settle(held[0].id))
            await _later(0)
            waiting.cancel()
            await asyncio.wait({waiting, settling})
            if not waiting.cancelled() and isinstance(lease := waiting.result(), Lease):
                await admission.settle(lease.id)
        await settled(admission)


async def test_who_is_withdrawn_before_the_answer_never_begins() -> None:
    async with controller() as admission:
        held = await leased(admission, ask(), ask())
        wanted = ask()
        waiting = asyncio.create_task(admission.admit(wanted))
        await _later()
        await admission.settle(wanted.id)
        assert outcomes([await waiting]) == {"cancelled": 1}
        late = ask()
        await admission.settle(late.id)  # the answer to an ask that has not arrived yet
        assert outcomes([await admission.admit(late)]) == {"cancelled": 1}
        for lease in held:
            await admission.settle(lease.id)
        await settled(admission)


async def test_asking_again_after_a_lost_answer_gives_the_same_lease() -> None:
    async with controller() as admission:
        wanted = ask(holder="gateway")
        first, again = await leased(admission, wanted, wanted)
        assert first.id == again.id
        assert (await admission.stats()).leases == 1
        await admission.settle(first.id)
        assert outcomes([await admission.admit(wanted)]) == {"cancelled": 1}


async def test_leases_that_nobody_renews_run_out() -> None:
    limits = Limits(quota={"video_frames": 100})
    records = Records()
    async with controller(records, lease_s=0.2) as admission:
        silent, kept = (
            ask(limits=limits, estimate=Spend(video_frames=10), holder=name) for name in "xy"
        )
        await leased(admission, silent, kept)
        records.write("a", silent.id, Spend(video_frames=3))
        async with asyncio.timeout(10):
            while (await admission.stats()).leases > 1:
                await admission.renew("y", [(kept, 0)])
                await _later()
        stats = await admission.stats()
        assert (stats.expired, stats.used["dialogue"]) == (1, 1.0)
        assert stats.reserved["a"] == Spend(video_frames=10)
        # Its gateway comes back and says that it holds it: it does not.
        await admission.renew("x", [(silent, 0)])
        assert (await admission.stats()).leases == 1
        await admission.settle(kept.id)
        await settled(admission)


async def test_after_a_restart_what_runs_is_counted_before_anybody_begins() -> None:
    limits = Limits(quota={"video_frames": 100})
    running = [ask(limits=limits, estimate=Spend(video_frames=40), holder="x") for _ in "ab"]
    async with controller(adopt_s=0.3) as admission:
        newcomer = asyncio.create_task(
            admission.admit(ask(limits=limits, estimate=Spend(video_frames=40)))
        )
        other = asyncio.create_task(admission.admit(ask("b")))
        await _later()
        await admission.renew("x", [(each, 0) for each in running])
        await _later(0.5)
        assert not newcomer.done()
        assert not other.done()
        stats = await admission.stats()
        assert (stats.leases, stats.used["dialogue"]) == (2, 2.0)
        for each in running:
            await admission.settle(each.id)
        assert outcomes(await asyncio.gather(newcomer, other)) == {"admitted": 2}


async def test_records_that_cannot_be_read_refuse_and_recover() -> None:
    records = Records()
    records.fault = RuntimeError("down")
    limits = Limits(quota={"video_frames": 100})
    async with controller(records) as admission:
        wanted = {"limits": limits, "estimate": Spend(video_frames=60)}
        assert outcomes([await admission.admit(ask(**wanted))]) == {"unavailable": 1}
        records.fault = None
        lease = (await leased(admission, ask(**wanted)))[0]
        # What is not known to be spent counts as it was reserved.
        records.fault = RuntimeError("down")
        await admission.settle(lease.id)
        records.fault = None
        assert outcomes([await admission.admit(ask(**wanted))]) == {"quota_exceeded": 1}
        assert isinstance(await admission.admit(ask("b")), Lease)


async def test_a_new_period_has_a_new_quota() -> None:
    now = [1_790_000_000.0]
    records = Records()
    limits = Limits(quota={"video_frames": 100}, period="day")
    async with controller(records, wall=lambda: now[0]) as admission:
        wanted = {"limits": limits, "estimate": Spend(video_frames=100)}
        lease = (await leased(admission, ask(**wanted)))[0]
        records.write("a", lease.id, Spend(video_frames=100))
        await admission.settle(lease.id)
        assert outcomes([await admission.admit(ask(**wanted))]) == {"quota_exceeded": 1}
        now[0] += 86_400
        records.rows.clear()  # they are of the day before
        assert outcomes([await admission.admit(ask(**wanted))]) == {"admitted": 1}


async def test_work_that_begins_while_the_records_are_read_is_counted_once() -> None:
    records = Records()
    limits = Limits(quota={"video_frames": 100})
    async with controller(records) as admission:
        await leased(admission, ask(limits=limits, estimate=Spend(video_frames=1)))
        state = dict(admission._tenants.all())["a"]
        records.pause_s = 0.1
        reading = asyncio.create_task(state.budget.reconcile())
        await _later()
        wanted = ask(limits=limits, estimate=Spend(video_frames=10))
        await leased(admission, wanted)
        records.write("a", wanted.id, Spend(video_frames=10))
        settling = asyncio.create_task(admission.settle(wanted.id))
        await asyncio.gather(reading, settling)
        assert state.budget.spent == Spend(video_frames=10)
        await state.budget.reconcile()
        assert state.budget.spent == Spend(video_frames=10)


async def test_tenants_are_forgotten_before_they_fill_the_memory() -> None:
    async with controller(max_tenants=100, capacity={}) as admission:
        for number in range(1000):
            lease = (await leased(admission, ask(f"t{number}")))[0]
            await admission.settle(lease.id)
        assert len(admission._tenants.all()) <= 100


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_nothing_is_lost_and_no_bound_is_broken(seed: int) -> None:
    """Random asks, ends, withdrawals, lost clients and slow records, at once."""
    chance = random.Random(seed)
    records = Records()
    records.pause_s = chance.choice([0.0, 0.002])
    quota, most = 400, 3
    limits = Limits(
        concurrent_turns=most, requests_per_minute=10_000, quota={"video_frames": quota}
    )
    running: Counter[str] = Counter()
    produced: Counter[str] = Counter()
    async with controller(
        records, capacity={"dialogue": 5.0, "avatar": 60.0}, max_queue=20, lease_s=30
    ) as admission:

        def bounded() -> None:
            used = admission._capacity.used
            assert used["dialogue"] <= 5
            assert used["avatar"] <= 60
            assert all(0 <= count <= most for count in running.values())
            for tenant, state in admission._tenants.all():
                held = sum((each for each in state.budget.reserved.values()), Spend())
                assert produced[tenant] <= quota, tenant
                assert state.budget.spent.video_frames + held.video_frames <= quota

        async def one(tenant: str) -> None:
            frames = chance.randint(1, 25)
            offers = (
                Offer("video", {"dialogue": 1.0, "avatar": 25.0}, Spend(video_frames=frames)),
                Offer("audio", {"dialogue": 1.0}),
            )
            wanted = ask(
                tenant,
                limits=limits,
                offers=offers[: chance.randint(1, 2)],
                priority=chance.choice(list(Priority)),
                queue_s=chance.uniform(0, 0.05),
                degrade_s=chance.uniform(0, 0.02),
            )
            asking = asyncio.create_task(admission.admit(wanted))
            leaves = chance.random()
            if leaves < 0.2:
                await _later(chance.uniform(0, 0.01))
                asking.cancel()
            elif leaves < 0.3:
                await admission.settle(wanted.id)
            await asyncio.wait({asking})
            decision = None if asking.cancelled() else asking.result()
            if not isinstance(decision, Lease):
                await admission.settle(wanted.id)
                return
            running[tenant] += 1
            bounded()
            await _later(chance.uniform(0, 0.01))
            spent = chance.randint(0, frames) if decision.offer == 0 else 0
            produced[tenant] += spent
            records.write(tenant, wanted.id, Spend(video_frames=spent))
            running[tenant] -= 1
            await admission.settle(wanted.id)
            bounded()

        tasks = []
        for _ in range(300):
            tasks.append(asyncio.create_task(one(chance.choice("abcd"))))
            if chance.random() < 0.3:
                await _later(0.001)
        await asyncio.gather(*tasks)
        await settled(admission)
        for tenant, state in admission._tenants.all():
            assert state.budget.spent.video_frames == produced[tenant]
            assert (state.running, state.asking) == (0, 0)
