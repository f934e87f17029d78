// A lease renews itself while nothing else does, and stops when it is told to or is gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ContextStoreError, LeaseError } from "../src/errors.js";
import { Lease } from "../src/lease.js";
import { eventually } from "./support/eventually.js";

const TTL = 90;

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
  await eventually("three renewals", () => renewed.length >= 3);
  lease.take(5n, TTL);
  await eventually("a renewal of the new lease", () => renewed.at(-1) === 5n);
  lease.stop();
  assert.equal(lease.generation, 5n);
  const after = renewed.length;
  await eventually("time for another", passed(200));
  assert.ok(renewed.length <= after + 1);
});

test("a change that was accepted makes a renewal needless", async () => {
  let renewals = 0;
  const lease = new Lease(async () => {
    renewals += 1;
    return TTL;
  });
  lease.take(1n, TTL);
  const over = passed(300);
  await eventually("a time of changes", () => {
    lease.used();
    return over();
  });
  assert.equal(renewals, 0);
  await eventually("a renewal in the silence", () => renewals > 0);
  lease.stop();
});

test("a lease that was taken over is not renewed", async () => {
  let renewals = 0;
  const lease = new Lease(async () => {
    renewals += 1;
    throw new LeaseError("taken over", { code: "ABORTED", reason: "STALE_LEASE" });
  });
  lease.take(1n, TTL);
  await eventually("the refusal", () => renewals > 0);
  await eventually("time for another", passed(200));
  assert.equal(renewals, 1);
});

function passed(ms: number): () => boolean {
  const end = performance.now() + ms;
  return () => performance.now() >= end;
}
