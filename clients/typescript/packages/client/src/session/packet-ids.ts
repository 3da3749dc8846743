/** The packet identifiers of one client (section 2.2.1): 1 to 65,535, each in one exchange at a time. */
export class PacketIds {
  /** @internal Those of a store are in use from the start. */
  readonly used = new Set<number>();
  private last = 0;

  /** A free one, which there must be. Freshly released ones come last, so that late answers meet nobody. */
  take(): number {
    do {
      this.last = this.last === 65_535 ? 1 : this.last + 1;
    } while (this.used.has(this.last));
    this.used.add(this.last);
    return this.last;
  }

  release(id: number): void {
    this.used.delete(id);
  }
}
