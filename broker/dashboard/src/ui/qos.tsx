import type { JSX } from "preact";

/** A field for a QoS. */
export function QosField({ value, onChange }: { value: string; onChange: (qos: string) => void }): JSX.Element {
  return (
    <label class="field">
      QoS
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option>0</option>
        <option>1</option>
        <option>2</option>
      </select>
    </label>
  );
}
