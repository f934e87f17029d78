// What index.js has.

/** The path of the program `contextstore`. Throws if there is none for this platform. */
export declare function binary(): string;
