export { default } from "@tautwire/mqtt-codec/mqtt-packet";
export * from "@tautwire/mqtt-codec/mqtt-packet";
