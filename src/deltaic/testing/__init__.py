"""What users and our own tests share: strategies, conformance suites, faulty stores."""
