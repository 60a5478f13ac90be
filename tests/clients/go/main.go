// Clients of Elasticsearch and Redis in Go against a node with TLS and users. Prints the results as one line of JSON:
// by client, by way to connect. tests/test_secure_clients.py starts it and checks the results.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/refresh"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/sortorder"
	"github.com/redis/go-redis/v9"
)

type result map[string]any

type ship struct {
	Name  string `json:"name"`
	Knots int    `json:"knots"`
}

var (
	background = context.Background()
	host       = os.Getenv("TEST_HOST")
	user       = os.Getenv("TEST_USER")
	password   = os.Getenv("TEST_PASSWORD")
)

// The status of a response that the client returns as an error; 200 without one.
func statusOf(err error) any {
	var answered *types.ElasticsearchError
	switch {
	case err == nil:
		return 200
	case errors.As(err, &answered):
		return answered.Status
	}
	return err.Error()
}

func documents(letter string, config elasticsearch.Config) (result, error) {
	index, other := os.Getenv("TEST_INDEX")+"-go-8-"+letter, os.Getenv("TEST_OTHER_INDEX")
	config.Addresses = []string{"https://" + host + ":" + os.Getenv("TEST_HTTP_PORT")}
	client, err := elasticsearch.NewTypedClient(config)
	if err != nil {
		return nil, err
	}
	indexed, err := client.Index(index).Id("1").Document(ship{"Ada", 12}).Refresh(refresh.True).Do(background)
	if err != nil {
		return nil, err
	}
	got, err := client.Get(index, "1").Do(background)
	if err != nil {
		return nil, err
	}
	bulk := client.Bulk().Refresh(refresh.True)
	dory := ship{"Dory", 3}
	for _, item := range []struct {
		index, id string
		ship      ship
	}{{index, "2", ship{"Beagle", 8}}, {index, "3", ship{"Cutty Sark", 17}}, {other, "1", dory}} {
		if err := bulk.IndexOp(types.IndexOperation{Index_: &item.index, Id_: &item.id}, item.ship); err != nil {
			return nil, err
		}
	}
	done, err := bulk.Do(background)
	if err != nil {
		return nil, err
	}
	statuses := []int{}
	for _, item := range done.Items {
		for _, outcome := range item {
			statuses = append(statuses, outcome.Status)
		}
	}
	atLeast := types.Float64(10)
	found, err := client.Search().Index(index).
		Query(&types.Query{Range: map[string]types.RangeQuery{"knots": types.NumberRangeQuery{Gte: &atLeast}}}).
		Sort(types.SortOptions{SortOptions: map[string]types.FieldSort{"knots": {Order: &sortorder.Desc}}}).
		Do(background)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for _, hit := range found.Hits.Hits {
		ids = append(ids, *hit.Id_)
	}
	_, noIndex := client.Index(other).Id("1").Document(dory).Do(background)
	_, noGet := client.Get(other, "1").Do(background)
	_, noSearch := client.Search().Index(other).Do(background)
	return result{
		"indexed":   indexed.Result.String(),
		"got":       got.Source_,
		"bulk":      statuses,
		"found":     ids,
		"total":     found.Hits.Total.Value,
		"forbidden": []any{statusOf(noIndex), statusOf(noGet), statusOf(noSearch)},
	}, nil
}

func rows(password string, authorities *x509.CertPool) (result, error) {
	prefix := os.Getenv("TEST_KEY") + "go:"
	port := os.Getenv("TEST_RESP_PORT")
	address := url.URL{Scheme: "rediss", User: url.UserPassword(user, password), Host: host + ":" + port}
	options, err := redis.ParseURL(address.String())
	if err != nil {
		return nil, err
	}
	if authorities != nil {
		options.TLSConfig = &tls.Config{RootCAs: authorities, ServerName: host}
	}
	client := redis.NewClient(options)
	defer client.Close()
	set, err := client.Set(background, prefix+"name", "Ada", 0).Result()
	if err != nil {
		return nil, err
	}
	got, err := client.Get(background, prefix+"name").Result()
	if err != nil {
		return nil, err
	}
	added, err := client.HSet(background, prefix+"log", "knots", "12", "wind", "NW").Result()
	if err != nil {
		return nil, err
	}
	hash, err := client.HGetAll(background, prefix+"log").Result()
	if err != nil {
		return nil, err
	}
	pipe := client.Pipeline()
	first, second := pipe.Incr(background, prefix+"n"), pipe.Incr(background, prefix+"n")
	name := pipe.Get(background, prefix+"name")
	if _, err := pipe.Exec(background); err != nil {
		return nil, err
	}
	forbidden := fmt.Sprint(client.Set(background, os.Getenv("TEST_OTHER_KEY"), "x", 0).Err())
	return result{
		"set": set, "got": got, "added": added, "hash": hash,
		"pipeline": []any{first.Val(), second.Val(), name.Val()}, "forbidden": forbidden,
	}, nil
}

// The outcome of a way to connect: where it failed, the error, and the status of a refusal.
func outcome(of result, err error) result {
	if err == nil {
		return of
	}
	failed := result{"error": err.Error(), "status": nil}
	if status, is := statusOf(err).(int); is {
		failed["status"] = status
	}
	return failed
}

func main() {
	authority, err := os.ReadFile(os.Getenv("TEST_CA"))
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	key, fingerprint := os.Getenv("TEST_API_KEY"), os.Getenv("TEST_CA_FINGERPRINT")
	wrong, wrongFingerprint := os.Getenv("TEST_WRONG_PASSWORD"), os.Getenv("TEST_WRONG_FINGERPRINT")
	results := map[string]map[string]result{"go-elasticsearch 8": {
		"password, CA file": outcome(documents("a", elasticsearch.Config{
			Username: user, Password: password, CACert: authority})),
		"API key, CA file": outcome(documents("b", elasticsearch.Config{APIKey: key, CACert: authority})),
		"password, CA fingerprint": outcome(documents("c", elasticsearch.Config{
			Username: user, Password: password, CertificateFingerprint: fingerprint})),
		"API key, CA fingerprint": outcome(documents("d", elasticsearch.Config{
			APIKey: key, CertificateFingerprint: fingerprint})),
		"wrong password": outcome(documents("e", elasticsearch.Config{
			Username: user, Password: wrong, CACert: authority})),
		"unknown CA": outcome(documents("e", elasticsearch.Config{Username: user, Password: password})),
		"wrong CA fingerprint": outcome(documents("e", elasticsearch.Config{
			Username: user, Password: password, CertificateFingerprint: wrongFingerprint})),
	}, "go-redis": {
		"password, CA file": outcome(rows(password, pool)),
		"wrong password":    outcome(rows(wrong, pool)),
		"unknown CA":        outcome(rows(password, nil)),
	}}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}
