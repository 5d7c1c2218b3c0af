;;; agent-q-watch-programs-test.el --- What a yes to a program covers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Questions about programs and about secrets: what they say, what an answer to
;; them covers, and what can't change meanwhile.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-watch)

(defun agent-q-watch-programs-test--answers (pairs)
  "Return a function that answers a question by the regexp of PAIRS that it matches."
  (lambda (question)
    (or (cdr (cl-find-if (lambda (pair)
                           (string-match-p (car pair) (or (plist-get question :words) "")))
                         pairs))
        "deny")))

;;;; What is the same

(agent-q-test-image-on-each watch-takes-a-line-for-no-other ()
  "A yes to code covers the program with just these arguments, here, and so given."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (let ((long (make-string 120 ?a)))
    (pcase-dolist
        (`(,form . ,others)
         `(("(sb-ext:run-program \"/bin/echo\" '(\"hi; true X\"))"
            "(uiop:run-program \"/bin/echo hi; true X\")"
            "(sb-ext:run-program \"/bin/echo\" '(\"hi;\" \"true\" \"X\"))"
            "(uiop:run-program '(\"/bin/echo\" \"hi;\" \"true X\"))")
           ("(uiop:run-program \"/bin/echo hi\")"
            "(uiop:run-program '(\"/bin/echo\" \"hi\"))")
           ("(sb-ext:run-program \"/bin/rm\" '(\"-f\" \"no VICTIM\"))"
            "(sb-ext:run-program \"/bin/rm\" '(\"-f\" \"no\" \"VICTIM\"))")
           ("(sb-ext:run-program \"/bin/true\" '() :directory \"/usr/\")"
            "(sb-ext:run-program \"/bin/true\" '())"
            "(sb-ext:run-program \"/bin/true\" '(\"in\" \"/usr/\"))"
            "(sb-ext:run-program \"/bin/true\" '() :directory \"/\")")
           (,(format "(sb-ext:run-program \"/bin/true\" '() :environment '(\"A=%s1\"))" long)
            ,(format "(sb-ext:run-program \"/bin/true\" '() :environment '(\"A=%s2\"))" long)
            ,(format "(sb-ext:run-program \"/bin/true\" '() :environment '(\"A=%s1\" \"LD_PRELOAD=x\"))" long)
            "(sb-ext:run-program \"/bin/true\" '())")
           ("(sb-ext:run-program \"/bin/true\" '() :environment '(\"A=1\" \"B=2\" \"C=3\" \"D=4\" \"E=5\" \"F=6\"))"
            "(sb-ext:run-program \"/bin/true\" '() :environment '(\"A=1\" \"B=2\" \"C=3\" \"D=4\" \"E=5\" \"G=7\"))")))
      (let ((granted (plist-get (agent-q-test-image-value connection "assess-form" :form form)
                                :effects)))
        (should granted)
        (agent-q-test-watch-with connection "deny"
          (agent-q-test-watch-eval connection form :granted granted)
          (should-not (agent-q-test-watch-words))
          (dolist (other others)
            (let ((before (length (agent-q-test-watch-words))))
              (agent-q-test-watch-eval connection other :granted granted)
              (should (= (1+ before) (length (agent-q-test-watch-words)))))))))))

(agent-q-test-image-on-each watch-says-which-program-it-is ()
  "A rule is told the real program, its folder and all that it is given, or nothing."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (let* ((directory (file-name-as-directory (file-truename agent-q-test-directory)))
         (evil (expand-file-name "evil/git" directory)))
    (make-directory (file-name-directory evil) t)
    (write-region "#!/bin/sh\n" nil evil nil 'silent)
    (set-file-modes evil #o755)
    (write-region "1" nil (expand-file-name "true" (file-name-directory evil)) nil 'silent)
    (make-symbolic-link evil (expand-file-name "git" directory) t)
    (pcase-dolist
        (`(,form ,target ,program ,where)
         `(("(sb-ext:run-program \"DIR/evil/git\" '(\"x\"))" ,(concat evil " x") ,evil t)
           ("(sb-ext:run-program \"DIR/git\" '(\"x y\"))" ,(concat directory "git 'x y'") ,evil t)
           ("(sb-ext:run-program \"evil/git\" '() :directory \"DIR/\")"
            ,(concat "evil/git, in " directory) ,evil ,directory)
           ("(sb-ext:run-program \"git\" '() :search t :environment '(\"PATH=DIR/evil\"))"
            t ,evil t)
           ;; One that can't be run is passed over.
           ("(sb-ext:run-program \"true\" '() :search t :environment '(\"PATH=DIR/evil:/bin\"))"
            t ,(file-truename "/bin/true") t)
           ("(uiop:run-program \"true; echo 'a'\")" "/bin/sh -c 'true; echo '\\''a'\\'''"
            ,(file-truename "/bin/sh") t)
           ("(uiop:run-program '(\"env\" \"A=1\" \"nice\" \"sh\" \"-c\" \"true; true\"))"
            "env A=1 nice sh -c 'true; true'" ,(file-truename "/usr/bin/env") t)
           ("(with-input-from-string (in \"rm x\") (sb-ext:run-program \"/bin/sh\" '() :input in))"
            "/bin/sh, reading the text 'rm x'" ,(file-truename "/bin/sh") t)
           ("(sb-ext:run-program \"/bin/sh\" '() :input t)" nil ,(file-truename "/bin/sh") t)
           ("(sb-ext:run-program \"/bin/sh\" '() :input :stream)" nil ,(file-truename "/bin/sh") t)
           ("(sb-ext:run-program \"/bin/sh\" '() :environment '(\"AQ_TOKEN=x\"))"
            nil ,(file-truename "/bin/sh") t)))
      (agent-q-test-watch-with connection "deny"
        (agent-q-test-watch-eval connection form)
        (let ((question (car (last agent-q-test-watch-questions))))
          (if (eq target t)
              (should (plist-get question :target))
            (should (equal target (plist-get question :target))))
          (should (equal program (plist-get question :program)))
          (if (eq where t)
              (should (file-directory-p (plist-get question :directory)))
            (should (equal where (plist-get question :directory)))))))))

;;;; What is shown

(agent-q-test-image-on-each watch-shows-all-that-runs ()
  "However long a command is, its end is in the question, or nobody is asked."
  (let ((command (concat "true " (make-string 5000 ?a) "; touch HARM")))
    (dolist (form '("(sb-ext:run-program \"/bin/sh\" (list \"-c\" %S))"
                    "(sb-alien:alien-funcall
                      (sb-alien:extern-alien \"system\" (function sb-alien:int sb-alien:c-string)) %S)"
                    "(with-input-from-string (in %S) (sb-ext:run-program \"/bin/sh\" '() :input in))"
                    "(sb-ext:run-program \"/bin/true\" '() :environment (list (format nil \"A=~A\" %S)))"))
      (agent-q-test-watch-with connection
          (agent-q-watch-programs-test--answers '(("\\`use the C function" . "allow")))
        (agent-q-test-watch-eval connection (format form command))
        (should (string-match-p "touch HARM" (car (last (agent-q-test-watch-words))))))))
  (agent-q-test-watch-with connection "allow"
    (let ((reply (agent-q-test-watch-eval
                  connection "(sb-ext:run-program \"/bin/echo\" (list (make-string 100001)))")))
      (should-not (agent-q-test-watch-words))
      (should (string-match-p "more text than anybody" (format "%S" reply))))))

(agent-q-test-image-on-each watch-lets-nothing-change-while-the-user-looks ()
  "What another thread makes of it meanwhile is not what runs."
  (let ((harm (expand-file-name "harm" agent-q-test-directory)))
    (dolist (form '("(let ((s (make-string 12000 :initial-element #\\Space)))
                       (replace s \"true\")
                       (aq-later (lambda () (fill s #\\Space) (replace s \"touch DIR/harm\")))
                       (sb-ext:run-program \"/bin/sh\" (list \"-c\" s)))"
                    "(let ((s (make-string 200 :initial-element #\\Space)))
                       (replace s \"true\")
                       (aq-later (lambda () (fill s #\\Space) (replace s \"touch DIR/harm\")))
                       (sb-ext:run-program \"/bin/sh\" '() :input (make-string-input-stream s)))"
                    "(progn
                       (aq-later (lambda () (aq-link \"DIR/two\" \"DIR/one\")))
                       (sb-ext:run-program \"DIR/one\" '()))"))
      (let ((program (lambda (name text)
                       (let ((file (expand-file-name name agent-q-test-directory)))
                         (write-region (concat "#!/bin/sh\n" text) nil file nil 'silent)
                         (set-file-modes file #o755)
                         file))))
        (funcall program "two" (format "touch %s\n" harm))
        (delete-file (expand-file-name "one" agent-q-test-directory))
        (make-symbolic-link (funcall program "three" "true\n")
                            (expand-file-name "one" agent-q-test-directory) t))
      (agent-q-test-watch-directly
       connection "(progn
         (require :sb-posix)
         (defvar *aq-go* nil)
         (defun aq-link (to name) (sb-posix:unlink name) (sb-posix:symlink to name))
         (defun aq-change () (funcall (shiftf *aq-go* nil)))
         (defun aq-later (function) (setf *aq-go* function)))")
      (agent-q-test-watch-with connection
          (let ((asked 0))
            (lambda (_)
              (if (> (cl-incf asked) 1)
                  "deny"
                ;; As another thread of the program would.
                (agent-q-test-watch-directly connection "(aq-change)")
                "allow")))
        (agent-q-test-watch-eval connection form)
        (should (agent-q-test-watch-words))
        (should-not (file-exists-p harm))))))

(agent-q-test-image-on-each watch-shows-the-form-that-was-sent ()
  "No variable makes a question show another form."
  (agent-q-test-watch-file "nothing")
  (agent-q-test-watch-with connection "deny"
    (agent-q-test-watch-eval
     connection "(progv '(-) '((shop-harmless-form)) (delete-file \"DIR/nothing\"))")
    (should (string-match-p "\\`(progv .*delete-file"
                            (plist-get (car (last agent-q-test-watch-questions)) :form)))))

(agent-q-test-image-on-each watch-names-functions-and-no-parameters ()
  "Who reaches out is said by the name of a function, not of what is in its lambda list."
  (agent-q-test-watch-file "nothing")
  (agent-q-test-watch-directly connection
   "(progn
      (unless (find-package \"AQ-SHOP\") (make-package \"AQ-SHOP\" :use '(\"COMMON-LISP\")))
      (let ((*package* (find-package \"AQ-SHOP\")))
        (eval (read-from-string
          \"(progn
             (defclass circle () ())
             (defvar *handler* (compile nil '(lambda (args) (delete-file args) args)))
             (defmethod print-object ((a circle) stream) (delete-file \\\"DIR/nothing\\\") stream)
             (defgeneric area (it))
             (defmethod area ((it circle)) (delete-file \\\"DIR/nothing\\\") it)
             (defun outer () (flet ((inner (it) (delete-file it) it)) (declare (notinline inner)) (values (inner \\\"DIR/nothing\\\")))))\"))))")
  (pcase-dolist (`(,form . ,function)
                 '(("(progn (funcall (symbol-value (find-symbol \"*HANDLER*\" \"AQ-SHOP\")) \"DIR/nothing\") 1)")
                   ("(progn (print-object (make-instance (find-symbol \"CIRCLE\" \"AQ-SHOP\")) *standard-output*) 1)")
                   ("(progn (funcall (find-symbol \"AREA\" \"AQ-SHOP\") (make-instance (find-symbol \"CIRCLE\" \"AQ-SHOP\"))) 1)"
                    . "AQ-SHOP::AREA")
                   ("(progn (funcall (find-symbol \"OUTER\" \"AQ-SHOP\")) 1)" . "AQ-SHOP::OUTER")))
    (agent-q-test-watch-with connection "deny"
      (agent-q-test-watch-eval connection form)
      (should (agent-q-test-watch-words))
      (should (equal function
                     (plist-get (car (last agent-q-test-watch-questions)) :function))))))

;;;; What a yes covers

(agent-q-test-image-on-each watch-covers-nothing-of-the-program-s-own ()
  "Functions of the program that are called while something allowed happens may do no more."
  (agent-q-test-watch-directly connection "(require :asdf)")
  (agent-q-test-watch-directly connection
   "(progn
      (defvar *aq-seen* nil)
      (defclass aq-reading (sb-gray:fundamental-character-input-stream) ())
      (defmethod stream-element-type ((stream aq-reading)) 'character)
      (defmethod sb-gray:stream-read-line ((stream aq-reading))
        (setf *aq-seen* (ignore-errors (sb-ext:posix-environ)))
        (values \"\" t)))")
  (agent-q-test-watch-with connection
      (agent-q-watch-programs-test--answers '(("\\`run `/bin/cat`" . "allow")))
    (let ((reply (agent-q-test-watch-eval
                  connection
                  "(sb-ext:run-program \"/bin/cat\" '() :input (make-instance 'aq-reading))")))
      (should (equal '("read all of the environment") (plist-get reply :denials)))
      (should (equal "NIL" (agent-q-test-watch-directly connection "*aq-seen*")))))
  ;; Not those temporary files that are another's.
  (let ((file (make-temp-file "/tmp/tmp" nil ".aq")))
    (unwind-protect
        (agent-q-test-watch-with connection
            (agent-q-watch-programs-test--answers '(("\\`run `/bin/true`" . "allow")))
          (agent-q-test-watch-eval
           connection
           (format "(uiop:run-program '(\"/bin/true\")
                      :output (lambda (s) (declare (ignore s)) (ignore-errors (delete-file %S))))"
                   file))
          (should (equal (list "run `/bin/true`" (concat "delete " file))
                         (agent-q-test-watch-words)))
          (should (file-exists-p file))
          ;; UIOP's own need no question.
          (agent-q-test-watch-eval
           connection "(uiop:run-program '(\"/bin/true\") :input '(\"x\") :output :string)")
          (should (= 3 (length (agent-q-test-watch-words))))
          (should (string-prefix-p "run `/bin/true` reading"
                                   (car (last (agent-q-test-watch-words))))))
      (delete-file file))))

(agent-q-test-image-on-each watch-remembers-what-was-denied ()
  "What the user has denied is not asked about again in the same call."
  (agent-q-test-watch-file "again.txt")
  (agent-q-test-watch-with connection "deny"
    (let ((reply (agent-q-test-watch-eval
                  connection "(loop repeat 5 do (ignore-errors (delete-file \"DIR/again.txt\")))
                              (list (nth-value 1 (ignore-errors (delete-file \"DIR/again.txt\"))))")))
      (should (= 1 (length (agent-q-test-watch-words))))
      (should (= 1 (length (plist-get reply :denials)))))
    (agent-q-test-watch-eval connection "(ignore-errors (delete-file \"DIR/again.txt\"))")
    (should (= 2 (length (agent-q-test-watch-words))))))

(agent-q-test-image-on-each watch-lists-only-what-the-user-denied ()
  "A printer that writes is asked about once; what it tries while the question is printed is not listed."
  (agent-q-test-watch-directly
   connection "(progn (defclass aq-printed () ())
                 (defmethod print-object ((it aq-printed) stream)
                   (ignore-errors (with-open-file (out \"DIR/printed\" :direction :output :if-exists :supersede)
                                    (print 1 out)))
                   (write-string \"P\" stream)) t)")
  (agent-q-test-watch-with connection "allow"
    (let ((reply (agent-q-test-watch-eval connection "(make-instance 'aq-printed)")))
      (should (equal '("P") (agent-q-test-watch-values reply)))
      (should (= 1 (length (agent-q-test-watch-words))))
      (should-not (plist-get reply :denials)))))

(agent-q-test-image-on-each watch-names-the-function-of-the-program ()
  "What makes the call is named, not the framework that calls it; at the top of a file it is a local function."
  (let ((file (expand-file-name "aq-names.lisp" agent-q-test-directory)) (names nil))
    (agent-q-test-watch-file "victim")
    (with-temp-file file
      (insert (agent-q-test-watch-filled
               connection
               "(defpackage :prove.aq (:use :cl) (:export #:run)) (defpackage :aq-named (:use :cl))
(in-package :prove.aq) (defvar *test* nil) (defun run () (list (funcall *test*)))
(in-package :aq-named)
(labels ((%wipes () (list (ignore-errors (delete-file \"VICTIM\"))))) (setf prove.aq::*test* #'%wipes))
(defun wipes () (list (ignore-errors (delete-file \"VICTIM\"))))")))
    (agent-q-test-image-load connection file)
    (agent-q-test-watch-with connection
        (lambda (question) (push (plist-get question :function) names) "deny")
      (agent-q-test-watch-eval connection "(list (prove.aq:run))")
      (agent-q-test-watch-eval connection "(progn (setf prove.aq::*test* #'aq-named::wipes) (list (prove.aq:run)))")
      (agent-q-test-watch-eval connection "(progn (setf prove.aq::*test* (lambda () (list (ignore-errors (delete-file \"DIR/victim\"))))) (list (prove.aq:run)))"))
    (should (equal '("AQ-NAMED::%WIPES" "AQ-NAMED::WIPES" nil) (nreverse names)))))

(agent-q-test-image-on-each watch-asks-about-no-file-that-is-not-there ()
  "Deleting what is not there fails as ever, and asks nobody; a link that leads nowhere is there."
  (let ((link (agent-q-test-watch-filled connection "DIR/link-to-nothing")))
    (make-symbolic-link "nothing" link t)
    (agent-q-test-watch-with connection "deny"
      (let ((reply (agent-q-test-watch-eval connection "(delete-file \"DIR/not-there\")")))
        (should (equal "DELETE-FILE-ERROR" (plist-get reply :type)))
        (should (string-search "No such file or directory" (plist-get reply :message)))
        (should (member "CONTINUE" (mapcar #'car (plist-get reply :restarts))))
        (should-not (plist-get reply :denials)))
      (should (equal '("(NIL T)") (agent-q-test-watch-values
                                   (agent-q-test-watch-eval
                                    connection
                                    "(list (ignore-errors (delete-file \"DIR/victim/not-there\"))
                                           (handler-bind ((file-error #'continue)) (delete-file \"DIR/not-there\")))"))))
      (should-not (agent-q-test-watch-words))
      (agent-q-test-watch-eval connection "(ignore-errors (delete-file \"DIR/link-to-nothing\"))")
      (should (equal (list (concat "delete " link)) (agent-q-test-watch-words)))
      (should (file-symlink-p link)))
    (delete-file link)))

(agent-q-test-image-on-each watch-asks-about-threads-while-they-live ()
  "The question about threads that outlive a call goes when they have ended."
  (agent-q-test-watch-directly connection "(defvar *aq-on* t)")
  (agent-q-test-watch-directly connection "(setf *aq-on* t)")
  (agent-q-test-watch-with connection
      (lambda (_) (agent-q-test-watch-directly connection "(setf *aq-on* nil)") nil)
    (let ((reply (agent-q-test-watch-eval
                  connection "(progn (sb-thread:make-thread (lambda () (loop while *aq-on* do (sleep 0.01)))) 1)")))
      (should (string-match-p "\\`leave a thread running" (car (agent-q-test-watch-words))))
      (should (cl-some (lambda (it) (plist-get it :withdrawn)) agent-q-test-watch-questions))
      (should-not (plist-get reply :denials)))))

;;;; Secrets

(agent-q-test-image-on-each watch-knows-secrets-by-words-and-looks ()
  "Variables of the environment are secret by the words of their names or by their values."
  (agent-q-test-watch-directly connection "(require :sb-posix)")
  (pcase-dolist
      (`(,name ,value ,secret)
       `(("DB_PASS" "hunter2" t) ("SSHPASS" "hunter2" t) ("BORG_PASSPHRASE" "hunter2" t)
         ("MYSQL_PWD" "hunter2" t) ("GH_PAT" "hunter2" t) ("PGPASSWORD" "hunter2" t)
         ("AWS_ACCESS_KEY_ID" "hunter2" t) ("github_token" "hunter2" t) ("NPM_AUTH" "hunter2" t)
         ("PASSWORD1" "hunter2" t)
         ("DATABASE_URL" "postgres://me:hunter2@db.example.org/shop" t)
         ("DATABASE_URL" "postgres://db.example.org:5432/shop" nil)
         ("SENTRY_DSN" "https://0f1e2d3c4b5a69788796a5b4c3d2e1f0@sentry.example.org/1" t)
         ("SHOP_DSN" "host=db user=me password=hunter2" t)
         ("AQ_CERTIFICATE" "-----BEGIN RSA PRIVATE KEY-----\\nx" t)
         ("AQ_SESSION" "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl" t)
         ("AQ_OTHER" "ghp_16C7e42F292c6912E7710c838347Ae178B4a" t)
         ("AQ_LONG" "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZg" t)
         ("GIT_AUTHOR_NAME" "Me" nil) ("XAUTHORITY" "/home/me/.Xauthority" nil)
         ("KEYBOARD_LAYOUT" "de" nil) ("SSH_AUTH_SOCK" "/tmp/ssh-XXabc123DEF456/agent.1" nil)
         ("MONKEYPATCH" "1" nil) ("SSH_ASKPASS" "/usr/bin/ssh-askpass" nil)
         ("LS_COLORS" "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33:so=01;35:do=01;35" nil)
         ("INVOCATION_ID" "0f1e2d3c4b5a69788796a5b4c3d2e1f0" nil)
         ("DBUS_SESSION_BUS_ADDRESS" "unix:path=/run/user/1000/bus" nil)
         ("TOKENIZERS_PARALLELISM" "false" nil) ("SBCL_HOME" "/usr/lib/sbcl" nil)
         ("OLDPWD" "/home/me" nil) ("AQ_VERSION" "1.2.3-4-gabcdef0" nil)
         ("AQ_SENTENCE" "TheQuickBrownFoxJumpsOver2LazyDogs" nil)))
    (agent-q-test-watch-directly connection (format "(sb-posix:setenv %S %S 1)" name value))
    (unwind-protect
        (agent-q-test-watch-with connection "deny"
          (dolist (form '("(sb-ext:posix-getenv %S)" "(sb-posix:getenv %S)"))
            (let ((denials (plist-get (agent-q-test-watch-eval connection (format form name))
                                      :denials)))
              (should (equal (list name (and secret t)) (list name (and denials t)))))))
      (agent-q-test-watch-directly connection (format "(sb-posix:unsetenv %S)" name))))
  (agent-q-test-watch-with connection "deny"
    (dolist (name '("PATH" "HOME" "PWD"))
      (agent-q-test-watch-eval connection (format "(sb-ext:posix-getenv %S)" name)))
    (should-not (agent-q-test-watch-words))
    (dolist (form '("(sb-ext:posix-environ)" "(sb-impl::wrapped-environ)"))
      (should (plist-get (agent-q-test-watch-eval connection form) :denials)))))

(agent-q-test-image-on-each watch-asks-about-names-in-private-folders ()
  "Listing a private folder is reading what is private; listing another is not."
  (agent-q-test-watch-directly connection "(require :sb-posix)")
  (dolist (name '("vault.env/page" "open/page"))
    (make-directory (file-name-directory (expand-file-name name agent-q-test-directory)) t)
    (write-region "1" nil (expand-file-name name agent-q-test-directory) nil 'silent))
  (agent-q-test-watch-with connection "deny"
    (dolist (form '("(directory \"DIR/%s/*.*\")" "(sb-posix:opendir \"DIR/%s\")"
                    "(sb-unix:unix-opendir \"DIR/%s/\" nil)"))
      (should-not (plist-get (agent-q-test-watch-eval connection (format form "open")) :denials))
      (should (string-match-p
               "\\`read the names in .*vault\\.env"
               (car (plist-get (agent-q-test-watch-eval connection (format form "vault.env"))
                               :denials)))))))

(agent-q-test-image-on-each watch-asks-about-files-of-several-names ()
  "A file with several names is asked about, as one of them may be private."
  (agent-q-test-watch-directly connection "(require :sb-posix)")
  (let ((one (agent-q-test-watch-file "one.txt")))
    (add-name-to-file one (expand-file-name "two.txt" agent-q-test-directory) t)
    (agent-q-test-watch-file "three.txt")
    (agent-q-test-watch-with connection "deny"
      (dolist (form '("(with-open-file (in \"DIR/%s.txt\") (read-line in))"
                      "(sb-unix:unix-close (sb-unix:unix-open \"DIR/%s.txt\" 0 0))"
                      "(sb-posix:close (sb-posix:open \"DIR/%s.txt\" 0))"))
        (should-not (plist-get (agent-q-test-watch-eval connection (format form "three")) :denials))
        (should (string-match-p
                 "two\\.txt, which has other names"
                 (car (plist-get (agent-q-test-watch-eval connection (format form "two"))
                                 :denials))))))))

(provide 'agent-q-watch-programs-test)
;;; agent-q-watch-programs-test.el ends here
