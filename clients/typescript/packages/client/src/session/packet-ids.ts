/** Allocates the packet identifiers of one client (section 2.2.1): 1 to 65,535, each for one exchange at a time. */
export class PacketIds {
  /** @internal A store adds the identifiers of its messages. */
  readonly used = new Set<number>();
  private last = 0;

  /** Returns a free identifier, of which there must be one. Recently released ones are reused last, because of late acknowledgements. */
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
