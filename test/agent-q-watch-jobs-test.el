;;; agent-q-watch-jobs-test.el --- What a call hands to others, under the watch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Jobs for threads of the program, and what the systems that a call builds leave
;; or write.

;;; Code:

(require 'agent-q-test-tools)
(require 'agent-q-test-watch)

(defconst agent-q-watch-jobs-test--workers "
(require :sb-concurrency)
(defvar *aq-jobs* nil)
(defvar *aq-told* nil)
(defun aq-work (job) (when job (handler-case (funcall job) (error (it) (push (type-of it) *aq-told*)))))
(eval (read-from-string \"(defvar *aq-box* (sb-concurrency:make-mailbox))\"))
(sb-thread:make-thread (lambda () (loop (sleep 0.01) (aq-work (pop *aq-jobs*)))))
(eval (read-from-string
  \"(sb-thread:make-thread (lambda () (loop (aq-work (sb-concurrency:receive-message *aq-box*)))))\"))
(defun aq-made () (lambda () (prog1 1 (delete-file \"VICTIM\"))))"
  "Threads of a program that do jobs, one of which looks again and again.")

(agent-q-test-image-on-each watch-sees-jobs-for-the-program ()
  "What threads of the program do for a call is asked about, also just after it; the user's own is not."
  (agent-q-test-watch-directly connection agent-q-watch-jobs-test--workers)
  (let ((victim (agent-q-test-watch-file "victim")))
    (agent-q-test-watch-with connection "deny"
      (dolist (form '("(push (lambda () (prog1 1 (delete-file \"VICTIM\"))) *aq-jobs*)"
                      "(push (lambda () (prog1 1 (delete-file \"VICTIM\"))) *aq-jobs*) (loop while *aq-jobs* do (sleep 0.02))"
                      "(sb-concurrency:send-message *aq-box* (lambda () (delete-file \"VICTIM\")))"
                      "(sb-concurrency:send-message *aq-box* (aq-made))"))
        (agent-q-test-watch-directly connection "(setf *aq-told* nil)")
        (agent-q-test-watch-eval connection (agent-q-test-watch-filled connection form))
        (agent-q-test-watch-await-value connection "(and *aq-told* t)")
        (should (equal "(AGENT-Q-IMAGE::FILE-EFFECT-DENIED)"
                       (agent-q-test-watch-directly connection "*aq-told*")))
        (should (file-exists-p victim)))
      (setq agent-q-test-watch-questions nil)
      (agent-q-test-watch-directly connection "(progn (push (aq-made) *aq-jobs*) t)")
      (should (agent-q-test-image-await (lambda () (not (file-exists-p victim)))))
      (should-not agent-q-test-watch-questions))))

(agent-q-test-image-on-each watch-lets-jobs-be-done ()
  "A job that was allowed is done, and a value comes back to the call that waits for it."
  (agent-q-test-watch-directly connection agent-q-watch-jobs-test--workers)
  (let ((victim (agent-q-test-watch-file "victim")))
    (agent-q-test-watch-with connection "allow"
      (should (equal '("(1 . T)")
                     (agent-q-test-watch-values
                      (agent-q-test-watch-eval
                       connection
                       (agent-q-test-watch-filled
                        connection
                        "(let ((done (sb-thread:make-semaphore)) (value nil))
                           (push (lambda () (setf value (cons 1 (delete-file \"VICTIM\")))
                                            (sb-thread:signal-semaphore done))
                                 *aq-jobs*)
                           (sb-thread:wait-on-semaphore done)
                           value)")))))
      (should (= 1 (length (agent-q-test-watch-words))))
      (should-not (file-exists-p victim)))))

;; Its code is anonymous, as that of a job is.
(agent-q-test-image-on-each watch-leaves-the-user-s-own-calls-alone ()
  "What the user evaluates is not judged, even if it runs what a call has just made."
  (let ((victim (agent-q-test-watch-file "victim")))
    (agent-q-test-watch-with connection "deny"
      (agent-q-test-watch-eval
       connection "(setf (symbol-function 'aq-car) (lambda (file) (prog1 1 (delete-file file))))")
      ;; The client was already waiting for this message when it was guarded.
      (agent-q-test-watch-directly connection "1")
      (agent-q-test-watch-directly connection "(ignore-errors (aq-car \"VICTIM\"))")
      (should-not (file-exists-p victim))
      (agent-q-test-watch-file "victim")
      (with-current-buffer (agent-q-test-tools-repl (agent-q-connection-client connection))
        (goto-char (point-max))
        (insert (agent-q-test-watch-filled connection "(ignore-errors (aq-car \"VICTIM\"))"))
        (call-interactively (key-binding (kbd "RET"))))
      (should (agent-q-test-image-await (lambda () (not (file-exists-p victim))) 10))
      (should-not (agent-q-test-watch-words)))))

;;;; Threads that live on

(defconst agent-q-watch-jobs-test--late "
(progn (defvar *aq-go* nil) (defvar *aq-told* nil) (defvar *aq-late* nil)
  (setf *aq-go* nil *aq-told* nil
        *aq-late* (sb-thread:make-thread
                   (lambda ()
                     (loop until *aq-go* do (sleep 0.01))
                     (setf *aq-told* (handler-case (delete-file \"VICTIM\") (error (it) (princ-to-string it)))))
                   :name \"aq late\"))
  GO)"
  "A form whose thread deletes a file as soon as *AQ-GO* is true.")

(defun agent-q-watch-jobs-test--late (connection go)
  "Return the form with a late thread behind CONNECTION and GO at its end."
  (string-replace "GO)" (concat go ")") (agent-q-test-watch-filled connection agent-q-watch-jobs-test--late)))

(defun agent-q-watch-jobs-test--answer (connection kind)
  "Wait for a question of KIND over CONNECTION, and allow it."
  (let ((question (agent-q-test-image-await
                   (lambda () (cl-find kind agent-q-test-watch-questions :test #'equal
                                       :key (lambda (it) (plist-get it :effect)))))))
    (should question)
    (let ((agent-q-test-watch-answer (lambda (_) "allow")))
      (agent-q-test-watch-take connection question))))

(agent-q-test-image-on-each watch-asks-for-a-thread-before-the-call-ends ()
  "What a thread asks while it is asked whether that may live on can still be answered."
  (let ((victim (agent-q-test-watch-file "victim")))
    (agent-q-test-watch-with connection nil
      (let ((ended (agent-q-test-watch-start connection (agent-q-watch-jobs-test--late connection "1"))))
        (should (agent-q-test-image-await
                 (lambda () (equal "outlive" (plist-get (car agent-q-test-watch-questions) :effect)))))
        (agent-q-test-watch-await-value
         connection "(progn (setf *aq-go* t) (and (sb-thread::thread-waiting-for *aq-late*) t))")
        (agent-q-watch-jobs-test--answer connection "outlive")
        (agent-q-watch-jobs-test--answer connection "delete-file")
        (should (agent-q-test-image-await ended))
        (should-not (file-exists-p victim))))))

(agent-q-test-image-on-each watch-ends-the-questions-of-a-call-with-it ()
  "When a call is stopped, its threads wait for no answer any more."
  (agent-q-test-watch-file "victim")
  (agent-q-test-watch-with connection nil
    (let ((request (gensym)))
      (agent-q-image-call connection request "eval-form"
                          (list :form (agent-q-watch-jobs-test--late
                                       connection "(setf *aq-go* t) (loop (sleep 0.1))")
                                :watch '(:patience 300))
                          60 #'ignore)
      (should (agent-q-test-image-await (lambda () agent-q-test-watch-questions)))
      (agent-q-image-cancel request)
      (agent-q-test-watch-await-value connection "(and *aq-told* t)")
      (should (string-match-p "Not allowed: delete " (agent-q-test-watch-directly connection "*aq-told*"))))))

(agent-q-test-image-on-each watch-tells-what-is-refused-after-a-call ()
  "A thread that lives on is refused its effects while no call runs, which user and model learn; else it asks."
  (let ((victim (agent-q-test-watch-file "victim")) (told nil))
    (agent-q-test-watch-with connection "allow"
      (let ((agent-q-image-event-functions
             (list (lambda (_ event) (when (eq 'refused (car-safe event)) (push (cdr event) told))))))
        (agent-q-test-watch-eval connection (agent-q-watch-jobs-test--late connection "1"))
        (agent-q-test-watch-directly connection "(setf *aq-go* t)")
        (should (agent-q-test-image-await (lambda () told)))
        (should (equal (list (list nil "aq late" (concat "delete " victim))) told))
        (should (file-exists-p victim))
        (let ((words (list (concat "delete " victim ", after the call that started it"))))
          (should (equal words (plist-get (agent-q-test-watch-eval connection "1") :denials))))
        (should-not (plist-get (agent-q-test-watch-eval connection "1") :denials))
        (setq told nil)
        (agent-q-test-watch-eval connection
                                 "(progn (defvar *aq-timer* (sb-ext:make-timer (lambda () (delete-file \"DIR/victim\")) :thread t))
                                         (sb-ext:schedule-timer *aq-timer* 3600) 1)")
        (agent-q-test-watch-directly connection "(sb-ext:schedule-timer *aq-timer* 0)")
        (should (equal (concat "delete " victim) (nth 2 (agent-q-test-image-await (lambda () (car told))))))
        (should (plist-get (agent-q-test-watch-eval connection "1") :denials))
        (should (file-exists-p victim))
        (setq told nil)
        (agent-q-test-watch-eval connection (agent-q-watch-jobs-test--late connection "1"))
        (should-not (plist-get (agent-q-test-watch-eval
                                connection "(progn (setf *aq-go* t) (loop until *aq-told* do (sleep 0.01)))")
                               :denials))
        (should-not (file-exists-p victim))
        (should-not told)))))

(agent-q-test-tools-on-each watch-says-in-the-chat-what-is-refused-after-a-call ()
  "Whoever let a thread live on is told in the chat what it is refused, and the model with its next call."
  (let ((victim (agent-q-test-watch-file "victim")))
    (should (string-match-p "\\`=> 1\\'"
                            (agent-q-test-tools-ask
                             (concat "/eval_form " (string-replace
                                                    "\n" " " (agent-q-watch-jobs-test--late connection "1"))))))
    (should (agent-q-test-shows "leave a thread running: aq late"))
    (agent-q-test-watch-directly connection "(setf *aq-go* t)")
    (agent-q-test-until
     (agent-q-test-shows (format "The thread aq late wanted to delete %s.  It was refused" victim)))
    (should (string-search (format "(Not allowed while it ran: delete %s, after the call that started it.)" victim)
                           (agent-q-test-tools-ask "/eval_form 1")))
    (should (file-exists-p victim))))

;;;; Others on the same image

(agent-q-test-image-on-each watch-serves-two-at-once ()
  "Calls over two connections to one image ask each where they came from, and one that goes leaves the other."
  (let ((victim (agent-q-test-watch-file "victim")) (asked nil))
    (agent-q-test-watch-with connection "deny"
      (let* ((client (agent-q-connection-client connection))
             (port (string-to-number
                    (agent-q-test-watch-directly
                     connection (if (eq client 'sly)
                                    "(funcall (find-symbol \"CREATE-SERVER\" :slynk) :port 0)"
                                  "(funcall (find-symbol \"CREATE-SERVER\" :swank) :port 0)"))))
             (before (agent-q-connection-connections)) (inhibit-message t)
             (other (save-window-excursion
                      (funcall (intern (format "%s-connect" client)) "127.0.0.1" port)
                      (agent-q-test-image-await
                       (lambda () (car (cl-set-difference (agent-q-connection-connections) before :test #'equal)))))))
        (agent-q-test-image-await
         (lambda () (equal "3" (ignore-errors (agent-q-test-image-directly other "(+ 1 2)")))))
        (let ((agent-q-test-watch-answer
               (lambda (question) (push (plist-get question :form) asked) "deny")))
          (dolist (one (list connection other))
            (let ((form (agent-q-test-watch-filled one (format "(progn %d (delete-file \"VICTIM\"))"
                                                               (if (eq one other) 2 1)))))
              (should (plist-get (agent-q-test-watch-eval one form) :denials))
              (should (equal form (car asked)))))
          (should (file-exists-p victim))
          (delete-process (agent-q-connection-process other))
          (agent-q-test-image-await (lambda () (not (agent-q-connection-live-p other))))
          (should (plist-get (agent-q-test-watch-eval
                              connection (agent-q-test-watch-filled connection "(delete-file \"VICTIM\")"))
                             :denials))
          (should (= 3 (length asked))))))))

(agent-q-test-image-on-each watch-is-not-saved ()
  "An image that is saved with the watch in it starts without one, and gets it again."
  (let* ((client (agent-q-connection-client connection))
         (core (expand-file-name (format "aq-%s.core" client) agent-q-test-directory))
         (other (agent-q-test-image-another client)))
    (agent-q-test-watch-with other "deny"
      (agent-q-test-watch-eval other "(+ 1 2)"))
    (agent-q-test-image-save other core)
    (let ((saved (agent-q-test-image-another
                  client (list "sbcl" "--core" core "--no-userinit" "--no-sysinit"))))
      (unwind-protect
          (progn
            (should (equal "NIL" (agent-q-test-image-directly
                                  saved "(sb-int:encapsulated-p 'delete-file :agent-q-watch)")))
            (agent-q-test-watch-file "victim")
            (agent-q-test-watch-with saved "deny"
              (should (plist-get (agent-q-test-watch-eval
                                  saved (agent-q-test-watch-filled saved "(delete-file \"VICTIM\")"))
                                 :denials))))
        (agent-q-test-image-kill saved)
        (delete-file core)))))

;;;; Systems

(defun agent-q-watch-jobs-test--load (connection name files)
  "Have the system NAME of FILES, lists of a name and a text, loaded over CONNECTION."
  (let* ((directory (file-name-as-directory
                     (expand-file-name "aq-systems" (file-truename agent-q-test-directory))))
         (file (expand-file-name
                (car (seq-find (lambda (it) (string-suffix-p (concat name ".asd") (car it))) files))
                directory)))
    (make-directory directory t)
    (pcase-dolist (`(,name ,text) files)
      (make-directory (file-name-directory (expand-file-name name directory)) t)
      (write-region (string-replace "SYSTEMS/" directory text) nil
                    (expand-file-name name directory) nil 'silent))
    (agent-q-test-watch-directly connection "(require :asdf)")
    (agent-q-test-image-reply
     connection "load-system" :system name :file file :watch '(:patience 30)
     :systems (cl-loop for (file) in files
                       when (string-suffix-p ".asd" file)
                       collect (list :name (file-name-base file)
                                     :file (expand-file-name file directory))))))

(agent-q-test-image-on-each watch-asks-what-a-system-leaves ()
  "A system that is loaded is asked about its hook at the end of the Lisp."
  (agent-q-test-watch-with connection "deny"
    (agent-q-watch-jobs-test--load
     connection "aq-leaving"
     '(("aq-leaving.asd" "(defsystem \"aq-leaving\" :components ((:file \"leaving\")))")
       ("leaving.lisp" "(defun cl-user::aq-at-exit () 1) (push 'cl-user::aq-at-exit sb-ext:*exit-hooks*)")))
    (should (equal '("change *EXIT-HOOKS*") (agent-q-test-watch-words)))
    (should (equal "NIL" (agent-q-test-watch-directly
                          connection "(find \"AQ-AT-EXIT\" sb-ext:*exit-hooks* :key #'princ-to-string
                                            :test #'string-equal)")))))

(agent-q-test-image-on-each watch-keeps-systems-from-others-files ()
  "A system writes in its own directory, not in that of another that it needs; nor old temporary files."
  (let ((kept (make-temp-file "/tmp/tmp-aq-kept"))
        (other (expand-file-name "aq-systems/library/other.lisp" (file-truename agent-q-test-directory))))
    (unwind-protect
        (progn
          (set-file-times kept (time-subtract nil 100))
          (agent-q-test-watch-with connection "deny"
            (agent-q-watch-jobs-test--load
             connection "aq-writing"
             `(("library/aq-needed.asd" "(defsystem \"aq-needed\" :components ((:file \"other\")))")
               ("library/other.lisp" "(with-open-file (out \"SYSTEMS/library/made.txt\" :direction :output :if-exists :supersede)
                                        (print 1 out))")
               ("own/aq-writing.asd" "(defsystem \"aq-writing\" :depends-on (\"aq-needed\") :components ((:file \"writing\")))")
               ("own/writing.lisp" ,(format "(ignore-errors
                                           (with-open-file (out \"SYSTEMS/library/other.lisp\" :direction :output
                                                                                             :if-exists :supersede)
                                             (print 1 out)))
                                         (ignore-errors (delete-file %S))
                                         (uiop:with-temporary-file (:stream out) (print 1 out))
                                         (with-open-file (out \"SYSTEMS/own/own.txt\" :direction :output
                                                                                :if-exists :supersede)
                                           (print 1 out))"
                                        kept))))
            (should (equal (list (concat "write " other) (concat "delete " kept))
                           (agent-q-test-watch-words)))
            (should (file-exists-p kept))
            (should (file-exists-p (expand-file-name "made.txt" (file-name-directory other))))))
      (delete-file kept))))

(provide 'agent-q-watch-jobs-test)
;;; agent-q-watch-jobs-test.el ends here
