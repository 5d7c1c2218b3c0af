(defpackage "TOUR-BANK/TESTS"
  (:use "CL" "TOUR-BANK"))

(in-package "TOUR-BANK/TESTS")

(defun pair ()
  "Return the accounts of two people who have 5 each."
  (list (make-instance 'account :owner "Ann" :balance 5)
        (make-instance 'account :owner "Bob" :balance 5)))

(defun moves-money ()
  (destructuring-bind (ann bob) (pair)
    (transfer ann bob 2)
    (and (= 3 (balance ann)) (= 7 (balance bob)))))

(defun leaves-all-as-it-was-when-refused ()
  (destructuring-bind (ann bob) (pair)
    (handler-case (progn (transfer ann bob 100) nil)
      (error () (and (= 5 (balance ann)) (= 5 (balance bob)))))))

(defun run ()
  "Run the tests; signal an error if one fails."
  (let ((failed (remove-if #'funcall '(moves-money leaves-all-as-it-was-when-refused))))
    (if failed
        (error "Failed: ~{~(~A~)~^, ~}." failed)
        (format t "Both tests pass.~%"))))
