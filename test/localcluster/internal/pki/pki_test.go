package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

func TestIssuedCertificates(t *testing.T) {
	authority, err := NewAuthority("a")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Certificate) {
		t.Fatal("the authority's certificate cannot be read")
	}
	client, server := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cases := map[string]struct {
		subject  Subject
		usage    []x509.ExtKeyUsage
		name     string
		wantGood bool
	}{
		"client":                  {Subject{User: "u", Groups: []string{"g"}}, client, "", true},
		"client is no server":     {Subject{User: "u"}, server, "", false},
		"server by name":          {Subject{User: "u", Names: []string{"n"}}, server, "n", true},
		"server by address":       {Subject{User: "u", Addresses: []net.IP{net.IPv4(1, 2, 3, 4)}}, server, "1.2.3.4", true},
		"server by another name":  {Subject{User: "u", Names: []string{"n"}}, server, "m", false},
		"server is a client, too": {Subject{User: "u", Names: []string{"n"}}, client, "", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pair, err := authority.Issue(tc.subject)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
			if err != nil {
				t.Fatalf("certificate and key do not match: %v", err)
			}
			_, err = loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: tc.usage, DNSName: tc.name})
			if (err == nil) != tc.wantGood {
				t.Errorf("verifying: %v, want good %t", err, tc.wantGood)
			}
			if loaded.Leaf.Subject.CommonName != tc.subject.User {
				t.Errorf("user %q, want %q", loaded.Leaf.Subject.CommonName, tc.subject.User)
			}
		})
	}
}

func TestAnotherAuthorityIsNotTrusted(t *testing.T) {
	one, err := NewAuthority("a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority("a")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := one.Issue(Subject{User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(other.Certificate)
	if _, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
		t.Error("a certificate of one authority is good for another")
	}
}
