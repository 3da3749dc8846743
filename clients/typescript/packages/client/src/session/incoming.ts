// QoS 1 and 2 messages from the server (sections 4.3.2 and 4.3.3). Each is delivered once, and acknowledged in the order of
// arrival `[MQTT-4.6.0-2]` `[MQTT-4.6.0-3]`, when the application has processed it.

import type { Publish, Pubrel } from "@tautwire/mqtt-codec";
import { MqttError } from "../errors.js";
import { Deque } from "./deque.js";
import type { Link } from "./link.js";

/** The state of a received QoS 1 or 2 message. */
export interface Receipt {
  readonly packetId: number;
  readonly qos: 1 | 2;
  /** The connection on which it was received last. */
  epoch: number;
  /** `held` by the application, `accepted` by it, `received`: PUBREC has been sent, `over`: complete. */
  stage: "held" | "accepted" | "received" | "over";
  /** The reason code of the acknowledgement. */
  reason: number;
}

export class IncomingMessages {
  /** @internal */
  readonly receipts = new Map<number, Receipt>();
  /** Receipts of this connection that have not been acknowledged, by QoS, oldest first. */
  private readonly unacknowledged: readonly [Deque<Receipt>, Deque<Receipt>] = [new Deque(), new Deque()];
  /** The number of exchanges that count against the receive maximum on this connection (section 4.9). */
  private open = 0;

  constructor(
    private readonly link: Link,
    private readonly receiveMaximum: number,
  ) {}

  /**
   * Handles a QoS 1 or 2 message. Returns null if the application has it already.
   *
   * @throws {MqttError} The server exceeds the receive maximum.
   */
  onPublish(packet: Publish): Receipt | null {
    const { link } = this;
    const packetId = packet.packetId!;
    const qos = packet.qos as 1 | 2;
    const known = this.receipts.get(packetId);
    // A QoS 2 exchange lasts until PUBREL, regardless of DUP [MQTT-4.3.3-10]. With QoS 1, DUP distinguishes a resent message from a
    // new one with an identifier that is still in use here.
    if (known?.qos === qos && (qos === 2 || packet.dup)) {
      this.onRepeated(known);
      return null;
    }
    if (this.open >= this.receiveMaximum && link.version === 5) {
      throw new MqttError("protocol_error", "receive maximum exceeded", { reason: 0x93 });
    }
    const receipt: Receipt = { packetId, qos, epoch: link.epoch, stage: "held", reason: 0 };
    this.receipts.set(packetId, receipt);
    this.unacknowledged[qos - 1]!.push(receipt);
    this.open++;
    return receipt;
  }

  private onRepeated(receipt: Receipt): void {
    if (receipt.epoch !== this.link.epoch) {
      receipt.epoch = this.link.epoch;
      this.open++;
      if (receipt.stage !== "received") this.unacknowledged[receipt.qos - 1]!.push(receipt);
    }
    if (receipt.stage === "received") this.link.send({ type: "pubrec", packetId: receipt.packetId });
    else this.acknowledgeInOrder(receipt.qos);
  }

  /** The application has processed the message. `reason`: 0, or the reason code with which it refuses it (section 3.4.2.1). */
  acknowledge(receipt: Receipt, reason: number): void {
    if (receipt.stage !== "held") return;
    receipt.stage = "accepted";
    // Before MQTT 5.0 nothing can be refused.
    receipt.reason = this.link.version === 5 ? reason : 0;
    // Persist it, so that the message is not delivered again, not even to the next process.
    if (receipt.qos === 2 && receipt.reason < 0x80) this.link.recorder?.received(receipt.packetId);
    // If it was received on an earlier connection, acknowledge it when the server sends it again.
    if (receipt.epoch === this.link.epoch && this.link.isUp) this.acknowledgeInOrder(receipt.qos);
  }

  private acknowledgeInOrder(qos: 1 | 2): void {
    const waiting = this.unacknowledged[qos - 1]!;
    for (let next = waiting.peek(); next !== undefined && next.stage !== "held"; next = waiting.peek()) {
      waiting.shift();
      if (next.stage === "accepted") this.send(next);
    }
  }

  private send(receipt: Receipt): void {
    const { packetId, reason } = receipt;
    this.link.send({ type: receipt.qos === 1 ? "puback" : "pubrec", packetId, reason });
    if (receipt.qos === 1 || reason >= 0x80) this.finish(receipt);
    else receipt.stage = "received";
  }

  onPubrel({ packetId }: Pubrel): void {
    const receipt = this.receipts.get(packetId);
    if (receipt?.qos === 2) {
      this.link.recorder?.completed(packetId);
      this.finish(receipt);
      this.link.send({ type: "pubcomp", packetId });
    } else {
      this.link.send({ type: "pubcomp", packetId, reason: this.link.version === 5 ? 0x92 : 0 });
    }
  }

  private finish(receipt: Receipt): void {
    receipt.stage = "over";
    this.receipts.delete(receipt.packetId);
    if (receipt.epoch === this.link.epoch) this.open--;
  }

  onConnected(isSessionPresent: boolean): void {
    for (const waiting of this.unacknowledged) waiting.clear();
    this.open = 0;
    if (isSessionPresent) return;
    for (const receipt of this.receipts.values()) receipt.stage = "over";
    this.receipts.clear();
  }
}
