// A lease renews itself while nothing else does, and stops when it is told to or is gone.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { ContextStoreError, LeaseError } from "../src/errors.js";
import { Lease } from "../src/lease.js";
import { FakeClock } from "./support/clock.js";

const TTL = 90;
/** It is renewed after a third of its life. */
const DUE = TTL / 3;

let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock();
});
afterEach(() => clock.restore());

// feature: leases-renewed
test("a lease is renewed again and again, under the newest generation, across failures that pass", async () => {
  const renewed: bigint[] = [];
  const lease: Lease = new Lease(async () => {
    renewed.push(lease.generation);
    if (renewed.length === 1) {
      throw new ContextStoreError("busy", { code: "UNAVAILABLE" });
    }
    return TTL;
  });
  lease.take(4n, TTL);
  await clock.pass(3 * DUE);
  assert.deepEqual(renewed.splice(0), [4n, 4n, 4n]);
  lease.take(5n, TTL);
  await clock.pass(DUE);
  assert.deepEqual(renewed.splice(0), [5n]);
  lease.stop();
  assert.equal(lease.generation, 5n);
  await clock.pass(100 * TTL);
  assert.deepEqual(renewed, []);
});

test("a change that was accepted makes a renewal needless", async () => {
  let renewals = 0;
  const lease = new Lease(async () => {
    renewals += 1;
    return TTL;
  });
  lease.take(1n, TTL);
  for (let n = 0; n < 100; n += 1) {
    await clock.pass(DUE - 1);
    lease.used();
  }
  assert.equal(renewals, 0);
  await clock.pass(DUE);
  assert.equal(renewals, 1);
  lease.stop();
});

// feature: lease-lost
test("a lease that was taken over is not renewed", async () => {
  let renewals = 0;
  const lease = new Lease(async () => {
    renewals += 1;
    throw new LeaseError("taken over", { code: "ABORTED", reason: "STALE_LEASE" });
  });
  lease.take(1n, TTL);
  await clock.pass(100 * TTL);
  assert.equal(renewals, 1);
});
