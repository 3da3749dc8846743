// Validates responses against the description of the admin API, so that the mock server cannot return what no broker does.

import { readFile } from "node:fs/promises";

const { paths, components } = JSON.parse(await readFile(new URL("../../../../docs/reference/admin-api.openapi.json", import.meta.url), "utf8"));

const PATTERNS = Object.entries(paths).map(([path, item]) => ({ item, pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, path.includes("/retained/") ? "(.+)" : "([^/]+)")}$`) }));

/** The errors of a response, a line each. */
export function faultsOf(method, path, status, body) {
  const operation = PATTERNS.find(({ item, pattern }) => pattern.test(path) && method.toLowerCase() in item)?.item[method.toLowerCase()];
  if (operation === undefined) return [`there is no ${method} ${path}`];
  const response = operation.responses[status] ?? (status >= 400 ? operation.responses.default : undefined);
  if (response === undefined) return [`${method} ${path} is never answered with ${status}`];
  const { content } = resolved(response);
  const schema = content?.["application/json"]?.schema;
  return schema === undefined || body === undefined ? [] : faults(body, schema, `${method} ${path}`);
}

function resolved(value) {
  return value.$ref === undefined ? value : value.$ref.split("/").slice(1).reduce((part, name) => part[name], { components });
}

function faults(value, given, at) {
  const schema = resolved(given);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) {
    const each = choices.map((choice) => faults(value, choice, at));
    return each.some((found) => found.length === 0) ? [] : each.at(-1);
  }
  if (schema.enum !== undefined) return schema.enum.includes(value) ? [] : [`${at}: ${JSON.stringify(value)} is none of ${schema.enum.join(", ")}`];
  const type = typeOf(value);
  const types = [schema.type ?? type].flat();
  if (!types.includes(type) && !(type === "integer" && types.includes("number"))) return [`${at}: is ${type}, and not ${types.join(" or ")}`];
  if (type === "array") return value.flatMap((item, number) => faults(item, schema.items ?? {}, `${at}[${number}]`));
  return type === "object" ? faultsOfObject(value, schema, at) : [];
}

function faultsOfObject(value, { properties = {}, required = [], additionalProperties = true }, at) {
  const missing = required.filter((name) => value[name] === undefined).map((name) => `${at}: ${name} is missing`);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return members.reduce((found, [name, member]) => {
    const schema = properties[name] ?? additionalProperties;
    if (schema === true) return found;
    return found.concat(schema === false ? [`${at}: there is no ${name}`] : faults(member, schema, `${at}.${name}`));
  }, missing);
}

function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
