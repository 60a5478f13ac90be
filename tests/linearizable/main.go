// The program `linearizable` says whether histories of single keys are linearizable.
//
//	linearizable [-timeout 60s] HISTORY.ndjson…
//
// It prints one line of JSON and ends with 0 where they are, 1 where they are not, 2 where they
// cannot be read, 3 where the time was over before it was known. The search is porcupine's; this
// program owns the reading (history.go), the sequential rules (model.go), and the explanation: of a
// key that fails it names the earliest answer that cannot be, and what went before.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Operations shown before the one that cannot be.
const shownMax = 24

type failure struct {
	Key string `json:"key"`
	// The operation whose answer cannot be.
	Wrong string `json:"wrong"`
	// The last ones that were called before it was answered, by the time of their call.
	Before []string `json:"before"`
}

type verdict struct {
	Result     string    `json:"result"`
	Operations int       `json:"operations"`
	Unknown    int       `json:"unknown"`
	Keys       int       `json:"keys"`
	Seconds    float64   `json:"seconds"`
	Failures   []failure `json:"failures"`
	TimedOut   []string  `json:"timed_out"`
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "for each key")
	flag.Parse()
	keys := map[string][]operation{}
	for _, path := range flag.Args() {
		if err := readFile(path, keys); err != nil {
			fmt.Fprintf(os.Stderr, "linearizable: %s: %v\n", path, err)
			os.Exit(2)
		}
	}
	if len(keys) == 0 {
		fmt.Fprintln(os.Stderr, "linearizable: no history is given, or an empty one")
		os.Exit(2)
	}
	result := judge(keys, *timeout)
	text, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	switch result.Result {
	case "illegal":
		os.Exit(1)
	case "unknown":
		os.Exit(3)
	}
}

func readFile(path string, keys map[string][]operation) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return read(file, keys)
}

func judge(keys map[string][]operation, timeout time.Duration) verdict {
	begin := time.Now()
	result := verdict{Result: "ok", Keys: len(keys), Failures: []failure{}, TimedOut: []string{}}
	names := make(chan string)
	var lock sync.Mutex
	var workers sync.WaitGroup
	for range make([]struct{}, runtime.NumCPU()) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for name := range names {
				ops := keys[name]
				found := check(simplified(ops), timeout)
				var why failure
				if found == porcupine.Illegal {
					why = explain(name, ops, timeout)
				}
				lock.Lock()
				switch found {
				case porcupine.Illegal:
					result.Failures = append(result.Failures, why)
				case porcupine.Unknown:
					result.TimedOut = append(result.TimedOut, name)
				}
				lock.Unlock()
			}
		}()
	}
	for name, ops := range keys {
		result.Operations += len(ops)
		for _, op := range ops {
			if op.out.isUnknown {
				result.Unknown++
			}
		}
		names <- name
	}
	close(names)
	workers.Wait()
	sort.Slice(result.Failures, func(a, b int) bool { return result.Failures[a].Key < result.Failures[b].Key })
	sort.Strings(result.TimedOut)
	if len(result.TimedOut) > 0 {
		result.Result = "unknown"
	}
	if len(result.Failures) > 0 {
		result.Result = "illegal"
	}
	result.Seconds = time.Since(begin).Seconds()
	return result
}

func simplified(ops []operation) []operation {
	ops = append([]operation{}, ops...)
	simplify(ops)
	return ops
}

func check(ops []operation, timeout time.Duration) porcupine.CheckResult {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.Client, Input: op.in, Call: op.CallNs, Output: op.out, Return: op.end}
	}
	return porcupine.CheckOperationsTimeout(machine, history, timeout)
}

// What was known at a time: later calls are left out, and what was not answered yet is unknown.
func until(ops []operation, at int64) []operation {
	var known []operation
	for _, op := range ops {
		if op.CallNs > at {
			continue
		}
		if op.ReturnNs == nil || *op.ReturnNs > at {
			if op.Op == "get" {
				continue
			}
			op.out, op.end = output{isUnknown: true}, never
		}
		known = append(known, op)
	}
	return known
}

// Finds the earliest answer after which a history that fails can be explained no more: what is
// known only grows, so it is found by halving.
func explain(name string, ops []operation, timeout time.Duration) failure {
	var answered []operation
	for _, op := range ops {
		if op.ReturnNs != nil {
			answered = append(answered, op)
		}
	}
	sort.Slice(answered, func(a, b int) bool { return *answered[a].ReturnNs < *answered[b].ReturnNs })
	first := sort.Search(len(answered)-1, func(i int) bool {
		return check(simplified(until(ops, *answered[i].ReturnNs)), timeout) == porcupine.Illegal
	})
	wrong := answered[first]
	before := until(ops, *wrong.ReturnNs)
	sort.Slice(before, func(a, b int) bool { return before[a].CallNs < before[b].CallNs })
	found := failure{Key: name, Wrong: wrong.String(), Before: []string{}}
	if len(before) > shownMax {
		before = before[len(before)-shownMax:]
	}
	for _, op := range before {
		found.Before = append(found.Before, op.String())
	}
	return found
}

func (op operation) String() string {
	text := fmt.Sprintf("%12.6f ", float64(op.CallNs)/1e9)
	if op.ReturnNs == nil {
		text += fmt.Sprintf("%12s", "…")
	} else {
		text += fmt.Sprintf("%12.6f", float64(*op.ReturnNs)/1e9)
	}
	text += fmt.Sprintf("  client %d at %s: %s", op.Client, op.Node, op.Op)
	if op.Op == "cas" {
		text += " " + op.in.expected.String() + " to"
	}
	if op.Value != nil {
		text += " " + *op.Value
	}
	if op.out.isUnknown {
		return text + " -> unknown"
	}
	return text + " -> " + string(op.Reply)
}

func (s state) String() string {
	if !s.isThere {
		return "nothing"
	}
	return s.value
}
