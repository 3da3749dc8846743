import { RealBroker } from "./real-broker.js";

/** A broker with a data directory. It can be killed, and restarts with the same ports and data. */
export class MortalBroker {
  private constructor(
    private running: RealBroker,
    private readonly data: string,
  ) {}

  static async start(data: string, listen?: readonly string[]): Promise<MortalBroker> {
    return new MortalBroker(await RealBroker.start(listen, [], data), data);
  }

  get urls(): readonly string[] {
    return this.running.urls;
  }

  get url(): string {
    return this.running.url;
  }

  async kill(): Promise<void> {
    const listen = this.urls.map((url) => url.replace("mqtt://", ""));
    await this.running.stop("SIGKILL");
    this.running = await RealBroker.start(listen, [], this.data);
  }

  stop(): Promise<void> {
    return this.running.stop();
  }
}
