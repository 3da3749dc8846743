// One entry for each library: how it decodes with a persistent decoder, and how it encodes. The last result is stored, so
// that the compiler cannot eliminate the work.

export const kept = { value: null };

async function tautwire() {
  const { MqttDecoder, encode, encodeInto } = await import("@tautwire/mqtt-codec");
  const buffer = new Uint8Array(65_536);
  return {
    input: (bytes) => bytes,
    packet: (bytes, version) => {
      const decoder = new MqttDecoder({ protocolVersion: version });
      decoder.push(bytes);
      return decoder.read();
    },
    decoder(version) {
      const decoder = new MqttDecoder({ protocolVersion: version });
      return (chunk) => {
        decoder.push(chunk);
        let count = 0;
        for (let packet = decoder.read(); packet !== null; packet = decoder.read()) {
          kept.value = packet;
          count++;
        }
        return count;
      };
    },
    frames(version) {
      const decoder = new MqttDecoder({ protocolVersion: version });
      return (chunk) => {
        decoder.push(chunk);
        let count = 0;
        for (let frame = decoder.readFrame(); frame !== null; frame = decoder.readFrame()) {
          kept.value = frame;
          kept.sum += frame.flags + frame.length;
          count++;
        }
        return count;
      };
    },
    framesWithTopic(version) {
      const decoder = new MqttDecoder({ protocolVersion: version });
      return (chunk) => {
        decoder.push(chunk);
        let count = 0;
        for (let frame = decoder.readFrame(); frame !== null; frame = decoder.readFrame()) {
          kept.value = frame.topic;
          kept.sum += frame.flags + frame.length;
          count++;
        }
        return count;
      };
    },
    encode: (packet, version) => encode(packet, version),
    encodeInto: (packet, version) => encodeInto(packet, buffer, 0, version),
  };
}

async function mqttPacket() {
  const { default: mqtt } = await import("mqtt-packet");
  return {
    input: (bytes) => Buffer.from(bytes),
    packet: (bytes, version) => {
      let packet = null;
      const parser = mqtt.parser({ protocolVersion: version });
      parser.on("packet", (parsed) => (packet = parsed));
      parser.parse(Buffer.from(bytes));
      return packet;
    },
    decoder(version) {
      let count = 0;
      const parser = mqtt.parser({ protocolVersion: version });
      parser.on("packet", (packet) => {
        kept.value = packet;
        count++;
      });
      parser.on("error", (error) => {
        throw error;
      });
      return (chunk) => {
        count = 0;
        parser.parse(chunk);
        return count;
      };
    },
    encode: (packet, version) => mqtt.generate(packet, { protocolVersion: version }),
  };
}

export const LIBRARIES = { tautwire, "mqtt-packet": mqttPacket };
