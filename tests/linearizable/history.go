package main

// Reads histories: one line of JSON an operation, in any order.
//
//	{"key": "r:0:1", "op": "cas", "value": "new", "expected": "old", "call_ns": 1, "return_ns": 2,
//	 "outcome": "ok", "reply": null, "client": 3, "node": "n1"}
//
// `outcome` is `ok`, `unknown` (it has no `return_ns`: it may happen at any time until the end, or
// not at all) or `refused` (it did not run, and is left out). `expected` and `reply` are null for an
// absent key. The reply of `setnx` and `del` is 0 or 1, of `incr` a number.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
)

const lineBytesMax = 1 << 20

// What an operation that never returned has as its time of return.
const never = math.MaxInt64

type line struct {
	Key      string          `json:"key"`
	Op       string          `json:"op"`
	Value    *string         `json:"value"`
	Expected *string         `json:"expected"`
	CallNs   int64           `json:"call_ns"`
	ReturnNs *int64          `json:"return_ns"`
	Outcome  string          `json:"outcome"`
	Reply    json.RawMessage `json:"reply"`
	Client   int             `json:"client"`
	Node     string          `json:"node"`
}

type operation struct {
	line
	in  input
	out output
	// When it had surely taken effect, where that is known; else `never`.
	end int64
}

func toState(value *string) state {
	if value == nil {
		return state{}
	}
	return state{isThere: true, value: *value}
}

// Reads operations by key.
func read(from io.Reader, into map[string][]operation) error {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, lineBytesMax)
	for number := 1; scanner.Scan(); number++ {
		var op operation
		if err := json.Unmarshal(scanner.Bytes(), &op.line); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if op.Outcome == "refused" {
			continue
		}
		if err := op.resolve(); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if op.out.isUnknown && op.Op == "get" {
			continue
		}
		into[op.Key] = append(into[op.Key], op)
	}
	return scanner.Err()
}

func (op *operation) resolve() error {
	op.in = input{op: op.Op, expected: toState(op.Expected)}
	switch op.Op {
	case "set", "swap", "setnx", "cas":
		if op.Value == nil {
			return fmt.Errorf("`%s` without a value", op.Op)
		}
		op.in.value = *op.Value
	case "get", "del", "incr":
	default:
		return fmt.Errorf("no operation is called `%s`", op.Op)
	}
	switch {
	case op.Outcome == "unknown":
		op.out.isUnknown, op.end = true, never
		return nil
	case op.Outcome != "ok" || op.ReturnNs == nil || *op.ReturnNs < op.CallNs:
		return fmt.Errorf("outcome `%s` with these times", op.Outcome)
	}
	op.end = *op.ReturnNs
	return op.takeReply()
}

func (op *operation) takeReply() error {
	switch op.Op {
	case "get", "swap":
		var text *string
		if err := json.Unmarshal(op.Reply, &text); err != nil {
			return err
		}
		op.out.value = toState(text)
	case "setnx", "del", "incr":
		var number int64
		if err := json.Unmarshal(op.Reply, &number); err != nil {
			return err
		}
		op.out.isDone = number != 0
		op.out.value = state{isThere: true, value: strconv.FormatInt(number, 10)}
	}
	return nil
}

// Makes the search for an order cheap where outcomes are unknown, without changing what it finds.
//
// An unknown write whose value was seen, and that nobody else gives, had happened by the time the
// first one who saw it was answered. Values that nobody saw are all the same. What then differs in
// its call alone forms a class (model.go).
func simplify(ops []operation) {
	isCounter := false
	givers, seen := map[string]int{}, map[string]int64{}
	see := func(value state, at int64) {
		if earlier, ok := seen[value.value]; value.isThere && (!ok || at < earlier) {
			seen[value.value] = at
		}
	}
	for _, op := range ops {
		switch op.Op {
		case "set", "swap", "setnx":
			givers[op.in.value]++
		case "cas":
			givers[op.in.value]++
			see(op.in.expected, op.end)
		case "incr":
			// Counted values come from anywhere.
			isCounter = true
		}
		if !op.out.isUnknown && (op.Op == "get" || op.Op == "swap") {
			see(op.out.value, op.end)
		}
	}
	for i := range ops {
		op := &ops[i]
		if op.out.isUnknown && !isCounter && givers[op.in.value] == 1 {
			if at, ok := seen[op.in.value]; !ok {
				op.in.value = "a value that nobody saw"
			} else if at >= op.CallNs && at < op.end {
				op.end = at
			}
		}
	}
	classify(ops)
}

// Puts unknown operations into classes, each ranked by call.
func classify(ops []operation) {
	type class struct {
		op, value string
		expected  state
	}
	members := map[class][]*operation{}
	for i := range ops {
		op := &ops[i]
		op.in.class, op.in.rank = 0, 0
		if op.end == never {
			key := class{op.Op, op.in.value, op.in.expected}
			members[key] = append(members[key], op)
		}
	}
	number := 0
	for _, alike := range members {
		if len(alike) < 2 || number+1 == classesMax || len(alike) > math.MaxUint16 {
			continue
		}
		number++
		sort.Slice(alike, func(a, b int) bool { return alike[a].CallNs < alike[b].CallNs })
		for rank, op := range alike {
			op.in.class, op.in.rank = number, uint16(rank)
		}
	}
}
