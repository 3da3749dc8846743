// Tables: semantic ones, with sticky headers, in a region that scrolls on a narrow screen.

import type { ComponentChildren, JSX } from "preact";

export interface Column<Row> {
  key: string;
  head: string;
  cell: (row: Row) => ComponentChildren;
  isNumber?: boolean;
  /** Whether this cell is the row's header for screen readers. */
  isRowHead?: boolean;
  /** The name of the sort order in the API, if the broker can sort by this column. */
  sort?: string;
}

export interface Sorting {
  by: string;
  isDescending: boolean;
  onSort: (by: string, isDescending: boolean) => void;
}

interface TableProps<Row> {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  sorting?: Sorting;
  isBusy?: boolean;
}

export function Table<Row>({ caption, columns, rows, rowKey, sorting, isBusy = false }: TableProps<Row>): JSX.Element {
  return (
    // A scrollable region is reachable by keyboard, and has a name.
    <div class="table-box" role="group" aria-label={caption} tabIndex={0} aria-busy={isBusy}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.key} column={column} sorting={sorting} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) =>
                column.isRowHead === true ? (
                  <th key={column.key} scope="row">
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.key} class={column.isNumber === true ? "number" : undefined}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Head<Row>({ column, sorting }: { column: Column<Row>; sorting: Sorting | undefined }): JSX.Element {
  const { sort, head, isNumber } = column;
  const name = isNumber === true ? "number" : undefined;
  if (sort === undefined || sorting === undefined) {
    return (
      <th scope="col" class={name}>
        {head}
      </th>
    );
  }
  const isSorted = sorting.by === sort;
  // Numbers are sorted in descending order first.
  const descending = isSorted ? !sorting.isDescending : isNumber === true;
  const order = sorting.isDescending ? "descending" : "ascending";
  return (
    <th scope="col" class={name} aria-sort={isSorted ? order : "none"}>
      <button type="button" class="sort" onClick={() => sorting.onSort(sort, descending)}>
        {head}
        <span aria-hidden="true">{isSorted ? (sorting.isDescending ? "\u00a0↓" : "\u00a0↑") : ""}</span>
      </button>
    </th>
  );
}
