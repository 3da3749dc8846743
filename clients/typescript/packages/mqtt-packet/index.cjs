"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
const mqttPacket = require("@tautwire/mqtt-codec/mqtt-packet");
exports.default = mqttPacket.default;
exports.Parser = mqttPacket.Parser;
exports.parser = mqttPacket.parser;
exports.generate = mqttPacket.generate;
exports.writeToStream = mqttPacket.writeToStream;
