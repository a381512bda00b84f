// Command control tests a client in Go with the control endpoint of a broker.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "orders"

type answer struct {
	Error    string
	Count    int
	Rules    json.RawMessage
	Topics   int
	Requests []struct {
		Errors []string
	}
}

func control(command string, arguments map[string]any) answer {
	body := map[string]any{"command": command}
	for name, value := range arguments {
		body[name] = value
	}
	text, err := json.Marshal(body)
	check(err)
	request, err := http.NewRequest(http.MethodPost, os.Getenv("CONTROL_URL"), bytes.NewReader(text))
	check(err)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("CONTROL_TOKEN"))
	response, err := http.DefaultClient.Do(request)
	check(err)
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	check(err)
	var found answer
	check(json.Unmarshal(text, &found))
	if response.StatusCode != http.StatusOK {
		fail("%s: %d %s", command, response.StatusCode, found.Error)
	}
	return found
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Getenv("BOOTSTRAP_SERVERS")),
		kgo.DefaultProduceTopic(topic),
		kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	)
	check(err)
	defer client.Close()
	produce := func(value string) error {
		return client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
	}

	check(produce("before the rule"))
	control("faults add", map[string]any{
		"arguments": []string{"api=Produce", "topic=" + topic, "nth=1", "error=NOT_LEADER_OR_FOLLOWER"},
	})
	check(produce("sent twice"))
	seen := control("requests", map[string]any{"api": "Produce", "topic": topic, "count": 3, "timeout": "10s"})
	errs := fmt.Sprint(seen.Requests)
	if errs != "[{[]} {[NOT_LEADER_OR_FOLLOWER]} {[]}]" {
		fail("the client sent %s", errs)
	}

	control("faults add", map[string]any{"arguments": []string{"api=Produce", "error=TOPIC_AUTHORIZATION_FAILED"}})
	if err := produce("refused"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		fail("the client got %v", err)
	}

	reset := control("reset", nil)
	if reset.Topics != 1 || string(reset.Rules) != "2" {
		fail("the reset deleted %d topics and %s rules", reset.Topics, reset.Rules)
	}
	if left := control("requests", map[string]any{"api": "Produce"}); left.Count != 0 {
		fail("%d requests are left", left.Count)
	}
	fmt.Println("passed")
}
