// Values as JSON, as they are sent. What JSON would change in silence is refused, with its place.

/** Writes a value as JSON. Throws a TypeError if JSON has no such value, a RangeError if a number in it is not finite. */
export function toJson(name: string, value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`${name} cannot be written as JSON: ${why}`, { cause });
  }
  if ((json as string | undefined) === undefined) {
    throw new TypeError(`${name} is ${typeof value}; it must be a value that JSON has`);
  }
  // A number that is not finite becomes null: only then is it worth while to look at each.
  if (json.includes("null")) {
    refuseNotFinite(name, value);
  }
  return json;
}

/** Throws a RangeError if a number is not finite. */
export function checkFinite(name: string, value: number): void {
  if (!Number.isFinite(value)) {
    throw new RangeError(`${name} is ${value}; it must be a finite number`);
  }
}

function refuseNotFinite(name: string, value: unknown): void {
  const paths = new Map<unknown, string>();
  JSON.stringify(value, function visit(this: unknown, key: string, inner: unknown) {
    const holder = paths.get(this);
    const step = Array.isArray(this) ? `[${key}]` : `.${key}`;
    const path = holder === undefined ? name : holder + step;
    if (typeof inner === "number") {
      checkFinite(path, inner);
    }
    if (typeof inner === "object" && inner !== null) {
      paths.set(inner, path);
    }
    return inner;
  });
}
