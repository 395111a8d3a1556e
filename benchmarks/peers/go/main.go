// The loads of the comparison on NATS JetStream, with its own Go client; arguments and lines as in load_client.py.
//
// A partition is a stream of its own: an ordered log with one leader and three replicas.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	wait           = 60 * time.Second
	gapLook        = 250 * time.Millisecond
	warmUpS        = 3
	replicas       = 3
	makersAtOnce   = 16
	pendingAtOnce  = 8_000
	pulledAtOnce   = 10_000
	gapAttemptWait = time.Second
)

var (
	bootstrap  = flag.String("bootstrap", "", "addresses of the servers")
	topic      = flag.String("topic", "", "")
	partitions = flag.Int("partitions", 1, "")
	valuesFile = flag.String("values", "", "values of --bytes each, one after the other")
	valueBytes = flag.Int("bytes", 100, "")
	perS       = flag.Int("per-s", 1, "")
	seconds    = flag.Int("seconds", 1, "")
	messages   = flag.Int64("messages", 1, "")
	count      = flag.Int("count", 1, "topics to make")
	windowS    = flag.Float64("window-s", 3, "")
	_          = flag.String("codec", "none", "there is none in this client")

	counted atomic.Int64
	ended   = make(chan struct{})
	output  sync.Mutex
)

func main() {
	load := os.Args[1]
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		fail(err)
	}
	connection, err := nats.Connect(*bootstrap, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		fail(err)
	}
	defer connection.Close()
	stream, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(pendingAtOnce),
		jetstream.WithPublishAsyncTimeout(wait), jetstream.WithDefaultTimeout(wait))
	if err != nil {
		fail(err)
	}
	loads := map[string]func(jetstream.JetStream) error{
		"produce": produce, "read": read, "steady": steady, "single": single, "gap": gap, "make": makeTopics,
		"leader": leader,
	}
	run, known := loads[load]
	if !known {
		fail(fmt.Errorf("no load %s", load))
	}
	if err := run(stream); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func say(values map[string]any) {
	line, err := json.Marshal(values)
	if err != nil {
		fail(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

func name(topic string, partition int) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

func names() []string {
	found := make([]string, *partitions)
	for partition := range found {
		found[partition] = name(*topic, partition)
	}
	return found
}

func values() [][]byte {
	content, err := os.ReadFile(*valuesFile)
	if err != nil {
		fail(err)
	}
	var found [][]byte
	for at := 0; at < len(content); at += *valueBytes {
		found = append(found, content[at:at+*valueBytes])
	}
	return found
}

// A line for each window, until standard input ends.
func watch(window time.Duration) {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	go func() {
		at, before := time.Now(), counted.Load()
		for {
			select {
			case <-ended:
				return
			case <-time.After(window):
			}
			now, total := time.Now(), counted.Load()
			say(map[string]any{"messages": total - before, "seconds": now.Sub(at).Seconds()})
			at, before = now, total
		}
	}()
}

func window() time.Duration {
	return time.Duration(*windowS * float64(time.Second))
}

func running() bool {
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

func writeEach(stream jetstream.JetStream, subjects []string, value []byte) error {
	for _, subject := range subjects {
		if _, err := stream.Publish(context.Background(), subject, value); err != nil {
			return err
		}
	}
	return nil
}

func produce(stream jetstream.JetStream) error {
	contents, subjects := values(), names()
	if err := writeEach(stream, subjects, contents[0]); err != nil {
		return err
	}
	watch(window())
	futures := make(chan jetstream.PubAckFuture, pendingAtOnce)
	drained := make(chan error, 1)
	go func() {
		for future := range futures {
			select {
			case <-future.Ok():
				counted.Add(1)
			case err := <-future.Err():
				drained <- err
				return
			}
		}
		drained <- nil
	}()
	for at := 0; running(); at++ {
		future, err := stream.PublishAsync(subjects[at%len(subjects)], contents[at%len(contents)])
		if err != nil {
			return err
		}
		select {
		case futures <- future:
		case err := <-drained:
			return err
		}
	}
	close(futures)
	if err := <-drained; err != nil {
		return err
	}
	say(map[string]any{"done": counted.Load() + int64(len(subjects))})
	return nil
}

func read(stream jetstream.JetStream) error {
	watch(window())
	for running() {
		if err := readAll(stream); err != nil {
			return err
		}
	}
	say(map[string]any{"done": counted.Load()})
	return nil
}

func readAll(stream jetstream.JetStream) error {
	left, through := atomic.Int64{}, make(chan struct{})
	left.Store(*messages)
	for _, subject := range names() {
		consumer, err := stream.OrderedConsumer(context.Background(), subject, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		consuming, err := consumer.Consume(func(jetstream.Msg) {
			counted.Add(1)
			if left.Add(-1) == 0 {
				close(through)
			}
		}, jetstream.PullMaxMessages(pulledAtOnce))
		if err != nil {
			return err
		}
		defer consuming.Stop()
	}
	before := int64(-1)
	for {
		select {
		case <-through:
			return nil
		case <-ended:
			return nil
		case <-time.After(wait):
			if counted.Load() == before {
				return fmt.Errorf("nothing to read, %d messages before the end", left.Load())
			}
			before = counted.Load()
		}
	}
}

func steady(stream jetstream.JetStream) error {
	contents, subjects := values(), names()
	if err := writeEach(stream, subjects, contents[0]); err != nil {
		return err
	}
	warmUp := *perS * warmUpS
	total := warmUp + *perS**seconds
	acknowledged, late := make([]float64, total), make([]float64, total)
	failed := make(chan error, total)
	var open sync.WaitGroup
	runtime.GC()
	began := time.Now()
	for at := 0; at < total; at++ {
		due := began.Add(time.Duration(at) * time.Second / time.Duration(*perS))
		time.Sleep(time.Until(due))
		if at == warmUp {
			say(map[string]any{"measuring": true})
		}
		sent := time.Now()
		late[at] = sent.Sub(due).Seconds() * 1e3
		future, err := stream.PublishAsync(subjects[at%len(subjects)], contents[at%len(contents)])
		if err != nil {
			return err
		}
		open.Add(1)
		go func() {
			defer open.Done()
			select {
			case <-future.Ok():
				acknowledged[at] = time.Since(sent).Seconds() * 1e3
			case err := <-future.Err():
				failed <- err
			}
		}()
	}
	open.Wait()
	say(map[string]any{"measured": true})
	select {
	case err := <-failed:
		return err
	default:
	}
	say(map[string]any{"acknowledged_ms": acknowledged[warmUp:], "late_ms": late[warmUp:]})
	return nil
}

func single(stream jetstream.JetStream) error {
	value, subjects := values()[0], names()
	if err := writeEach(stream, subjects, value); err != nil {
		return err
	}
	watch(window())
	return each(subjects, len(subjects), func(subject string) error {
		for running() {
			if _, err := stream.Publish(context.Background(), subject, value); err != nil {
				return err
			}
			counted.Add(1)
		}
		return nil
	}, func() { say(map[string]any{"done": counted.Load()}) })
}

// Does it for all of them, so many at once, then calls `after` if none failed.
func each(items []string, atOnce int, do func(string) error, after func()) error {
	queue, failed := make(chan string, len(items)), make(chan error, len(items))
	for _, item := range items {
		queue <- item
	}
	close(queue)
	var open sync.WaitGroup
	for range atOnce {
		open.Add(1)
		go func() {
			defer open.Done()
			for item := range queue {
				if err := do(item); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	open.Wait()
	select {
	case err := <-failed:
		return err
	default:
		after()
		return nil
	}
}

// One message after the other. An answer that does not come within a second is asked for again with the same id,
// which the stream stores once.
func gap(stream jetstream.JetStream) error {
	value, subject := values()[0], name(*topic, 0)
	var times []float64
	began := time.Now()
	watch(gapLook)
	for at := 0; running(); at++ {
		for tries := 1; ; tries++ {
			attempt, cancel := context.WithTimeout(context.Background(), gapAttemptWait)
			_, err := stream.Publish(attempt, subject, value, jetstream.WithMsgID(fmt.Sprintf("m-%d", at)))
			cancel()
			if err == nil {
				break
			}
			if time.Duration(tries)*gapAttemptWait > wait {
				return err
			}
		}
		times = append(times, time.Since(began).Seconds()*1e3)
		counted.Add(1)
	}
	say(map[string]any{"times_ms": times})
	return nil
}

func makeTopics(stream jetstream.JetStream) error {
	var wanted []string
	for at := range *count {
		prefix := *topic
		if *count > 1 {
			prefix = name(*topic, at)
		}
		for partition := range *partitions {
			wanted = append(wanted, name(prefix, partition))
		}
	}
	began := time.Now()
	return each(wanted, makersAtOnce, func(subject string) error {
		_, err := stream.CreateStream(context.Background(), jetstream.StreamConfig{
			Name: subject, Subjects: []string{subject}, Replicas: replicas, Storage: jetstream.FileStorage,
		})
		return err
	}, func() { say(map[string]any{"made_s": time.Since(began).Seconds()}) })
}

func leader(stream jetstream.JetStream) error {
	found, err := stream.Stream(context.Background(), name(*topic, 0))
	if err != nil {
		return err
	}
	say(map[string]any{"leader": found.CachedInfo().Cluster.Leader})
	return nil
}
